-- @view     _stream_queues
-- @summary  How long the queue of each stream is: operations that are launched, and not yet begun
--           on the device.
-- @materialize session
-- @partition rank
-- @requires _launch_calls
-- @caveat   Operations of one CUDA graph on a stream are one operation. Lengths are weighted by
--           time, from the first launch of the stream to its last start (span_ns).
WITH
    -- Clocks that disagree would take an operation out of the queue before it is in.
    operations AS (
        SELECT
            trace, rank, device, stream,
            least(min(launch_ts_ns), min(ts_ns)) AS in_ns,
            min(ts_ns) AS out_ns
        FROM _launch_calls
        GROUP BY trace, rank, device, stream, runtime_event_id
    ),

    edges AS (
        SELECT trace, rank, device, stream, in_ns AS at_ns, 1 AS change
        FROM operations
        UNION ALL
        SELECT trace, rank, device, stream, out_ns, -1
        FROM operations
    ),

    levels AS (
        SELECT
            trace, rank, device, stream,
            TRY_CAST(sum(sum(change)) OVER edge AS BIGINT) AS length,
            lead(at_ns) OVER edge - at_ns AS time_ns
        FROM edges
        GROUP BY trace, rank, device, stream, at_ns
        WINDOW edge AS (PARTITION BY trace, rank, device, stream ORDER BY at_ns)
    ),

    times AS (
        SELECT
            trace, rank, device, stream, length, sum(time_ns) AS time_ns,
            sum(sum(time_ns)) OVER (
                PARTITION BY trace, rank, device, stream ORDER BY length
            ) AS up_to_ns,
            sum(sum(time_ns)) OVER (PARTITION BY trace, rank, device, stream) AS span_ns
        FROM levels
        WHERE time_ns > 0
        GROUP BY trace, rank, device, stream, length
    ),

    counts AS (
        SELECT trace, rank, device, stream, count(*) AS operations
        FROM operations
        GROUP BY trace, rank, device, stream
    )

SELECT
    t.trace, t.rank, t.device, t.stream,
    max(c.operations) AS operations,
    max(t.span_ns) AS span_ns,
    sum(t.length * t.time_ns) / CAST(max(t.span_ns) AS DOUBLE) AS mean_length,
    min(t.length) FILTER (WHERE t.up_to_ns >= 0.95 * t.span_ns) AS p95_length,
    max(t.length) AS max_length,
    100.0 * coalesce(sum(t.time_ns) FILTER (WHERE t.length = 0), 0) / max(t.span_ns)
        AS empty_pct
FROM times AS t
INNER JOIN counts AS c
    ON c.trace = t.trace
    AND c.rank = t.rank
    AND c.device IS NOT DISTINCT FROM t.device
    AND c.stream IS NOT DISTINCT FROM t.stream
GROUP BY t.trace, t.rank, t.device, t.stream
