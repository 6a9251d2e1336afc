-- @view     _waits
-- @summary  How long each rank of a matched call waited for the last one to enter it: by the clocks
--           as recorded, and with their offsets taken away.
-- @materialize session
-- @requires _clock_shifts collectives
-- @caveat   Two rows for each share of a call, aligned false and true (see _clock_shifts). No rank
--           waits longer than its own event lasts; late_ns is how much later the last rank comes,
--           whatever the event lasts. Of ranks that start together the lowest is the last, and the
--           first.
WITH
    shares AS (
        SELECT
            c.trace, c.source, c.rank, c.collective_id, c.collective, c.event_id, c.device, c.step,
            c.ts_ns, c.dur_ns, o.aligned, o.by_itself,
            c.ts_ns - o.shift_ns AS start_ns
        FROM collectives AS c
        INNER JOIN _clock_shifts AS o ON o.trace = c.trace AND o.rank = c.rank
        WHERE c.collective_id IS NOT NULL
    ),

    lasts AS (
        SELECT
            trace, source, rank, collective_id, collective, event_id, device, step, ts_ns, dur_ns,
            aligned, by_itself, start_ns,
            max(start_ns) OVER call - start_ns AS late_ns,
            first_value(rank) OVER from_last AS last_rank,
            row_number() OVER from_last = 1 AS is_last,
            row_number() OVER from_first = 1 AS is_first
        FROM shares
        WINDOW
            call AS (PARTITION BY trace, collective_id, aligned),
            from_last AS (
                PARTITION BY trace, collective_id, aligned ORDER BY start_ns DESC, rank
            ),
            from_first AS (
                PARTITION BY trace, collective_id, aligned ORDER BY start_ns, rank
            )
    )

SELECT
    trace, source, rank, collective_id, collective, event_id, device, step, ts_ns, dur_ns,
    aligned, by_itself, start_ns, late_ns,
    least(late_ns, dur_ns) AS wait_ns,
    last_rank, is_last, is_first
FROM lasts
