-- @view     _waits
-- @summary  How long each rank of a matched call waited for the last one to enter it: by the clocks as recorded, and with the offsets of the clocks taken away.
-- @materialize session
-- @requires _clock_offsets collectives
-- @caveat   No rank waits longer than its own event lasts; late_ns is how much later the last rank comes, whatever the event lasts. Of ranks that start together the lowest is the last, and the first.
WITH
    shares AS (
        SELECT
            c.trace, c.source, c.rank, c.collective_id, c.collective, c.device, c.step, c.ts_ns, c.dur_ns,
            c.ts_ns - coalesce(o.offset_ns, 0) AS aligned_ns
        FROM collectives AS c
        LEFT JOIN _clock_offsets AS o ON o.trace = c.trace AND o.rank = c.rank
        WHERE c.collective_id IS NOT NULL AND c.dur_ns IS NOT NULL
    ),

    lasts AS (
        SELECT
            trace, source, rank, collective_id, collective, device, step, ts_ns, dur_ns,
            max(ts_ns) OVER call - ts_ns AS late_ns,
            max(aligned_ns) OVER call - aligned_ns AS aligned_late_ns,
            row_number() OVER (
                PARTITION BY trace, source, collective_id ORDER BY ts_ns DESC, rank
            ) = 1 AS is_last,
            row_number() OVER (
                PARTITION BY trace, source, collective_id ORDER BY aligned_ns DESC, rank
            ) = 1 AS aligned_is_last,
            row_number() OVER (
                PARTITION BY trace, source, collective_id ORDER BY ts_ns, rank
            ) = 1 AS is_first,
            row_number() OVER (
                PARTITION BY trace, source, collective_id ORDER BY aligned_ns, rank
            ) = 1 AS aligned_is_first
        FROM shares
        WINDOW call AS (PARTITION BY trace, source, collective_id)
    )

SELECT
    trace, source, rank, collective_id, collective, device, step, ts_ns, dur_ns,
    late_ns, aligned_late_ns,
    least(late_ns, dur_ns) AS wait_ns,
    least(aligned_late_ns, dur_ns) AS aligned_wait_ns,
    is_last, aligned_is_last, is_first, aligned_is_first
FROM lasts
