-- @metric   avg_comm_kernel_time_s
-- @version  1
-- @area     overlap
-- @summary  Mean duration of a communication event, all ranks.
-- @grain    trace
-- @requires collectives
-- @value    avg_comm_kernel_time_s
-- @null     no communication event has a duration
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   avg_comm_kernel_time_s DOUBLE value s lower | Mean duration; an asynchronous pair is
--           one event from start to done.
-- @column   by_type MAP value - | Of each kind: count, mean_s, p50_s, p95_s (percentiles
--           interpolated).
-- @caveat   Time in which a rank waits for the others inside a call counts. The tool that set the
--           name takes both halves of an asynchronous pair for events, so that its mean is lower.
-- @source   metrics 2.C avg_comm_kernel_time_s (defects D10, D21)
WITH
    events AS (
        SELECT trace, collective, dur_ns
        FROM collectives
        WHERE dur_ns IS NOT NULL
    ),

    types AS (
        SELECT
            trace,
            collective,
            count(*) AS event_count,
            avg(dur_ns) / 1e9 AS mean_s,
            quantile_cont(dur_ns, 0.5) / 1e9 AS p50_s,
            quantile_cont(dur_ns, 0.95) / 1e9 AS p95_s
        FROM events
        GROUP BY trace, collective
    ),

    type_maps AS (
        SELECT
            trace,
            map(
                array_agg(collective ORDER BY collective),
                array_agg({count: event_count, mean_s: mean_s, p50_s: p50_s, p95_s: p95_s}
                    ORDER BY collective)
            ) AS by_type
        FROM types
        GROUP BY trace
    ),

    totals AS (
        SELECT trace, avg(dur_ns) / 1e9 AS mean_s
        FROM events
        GROUP BY trace
    )

SELECT t.trace, t.mean_s AS avg_comm_kernel_time_s, m.by_type
FROM totals AS t
INNER JOIN type_maps AS m ON m.trace = t.trace
ORDER BY t.trace
