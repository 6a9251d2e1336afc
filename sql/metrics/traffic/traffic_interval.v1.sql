-- @metric   traffic_interval
-- @version  1
-- @area     traffic
-- @summary  Time between the end of a communication event and the start of the next one of its kind
--           on a device.
-- @grain    trace
-- @requires collectives
-- @value    mean_interval_ms
-- @null     no device has two events of a kind
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   mean_interval_ms DOUBLE value ms | Mean over all kinds, devices and ranks of next start
--           - end, counted from the latest end so far; 0 where they overlap.
-- @column   p50_interval_ms DOUBLE value ms | Median, interpolated.
-- @column   p95_interval_ms DOUBLE value ms | 95th percentile, interpolated.
-- @column   max_interval_ms DOUBLE value ms | Largest.
-- @column   intervals_count BIGINT value count | Intervals.
-- @column   by_type LIST value - | Of each kind: collective, intervals, mean_ms, p50_ms, p95_ms,
--           max_ms.
-- @caveat   The distance from end to start, not from start to start. What lies between two steps
--           counts as well.
-- @source   metrics 2.C traffic_interval
WITH
    followed AS (
        SELECT
            trace, collective, ts_ns,
            max(ts_ns + dur_ns) OVER (
                PARTITION BY trace, rank, device, collective ORDER BY ts_ns, event_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS previous_end_ns
        FROM collectives
        WHERE dur_ns IS NOT NULL
    ),

    intervals AS (
        SELECT trace, collective, greatest(ts_ns - previous_end_ns, 0) / 1e6 AS interval_ms
        FROM followed
        WHERE previous_end_ns IS NOT NULL
    ),

    kinds AS (
        SELECT
            trace, collective, count(*) AS intervals,
            avg(interval_ms ORDER BY interval_ms) AS mean_ms,
            quantile_cont(interval_ms, 0.5) AS p50_ms,
            quantile_cont(interval_ms, 0.95) AS p95_ms,
            max(interval_ms) AS max_ms
        FROM intervals
        GROUP BY trace, collective
    ),

    kind_lists AS (
        SELECT
            trace,
            array_agg(
                {collective: collective, intervals: intervals, mean_ms: mean_ms, p50_ms: p50_ms,
                    p95_ms: p95_ms, max_ms: max_ms}
                ORDER BY collective
            ) AS by_type
        FROM kinds
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace,
            avg(interval_ms ORDER BY interval_ms) AS mean_interval_ms,
            quantile_cont(interval_ms, 0.5) AS p50_interval_ms,
            quantile_cont(interval_ms, 0.95) AS p95_interval_ms,
            max(interval_ms) AS max_interval_ms,
            count(*) AS intervals_count
        FROM intervals
        GROUP BY trace
    )

SELECT
    t.trace, t.mean_interval_ms, t.p50_interval_ms, t.p95_interval_ms, t.max_interval_ms,
    t.intervals_count, k.by_type
FROM totals AS t
INNER JOIN kind_lists AS k ON k.trace = t.trace
ORDER BY t.trace
