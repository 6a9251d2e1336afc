-- @metric   compute_utilization_proxy
-- @version  1
-- @area     devices
-- @summary  Share of the window of a rank in which it computes, mean over ranks.
-- @grain    trace
-- @requires device_events
-- @reads    _windows _device_times _class_reasons
-- @value    compute_utilization_proxy
-- @null     no device event has a duration
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'compute')
--           | the names of some kernels are lost, or whole CUDA graphs were traced
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   compute_utilization_proxy DOUBLE value ratio higher | |compute| / window of a rank,
--           mean over ranks.
-- @column   per_rank MAP value ratio | |compute| / window of each rank.
-- @caveat   The tool that set the name adds up durations, nested and concurrent operations too, and
--           divides by a span with the host in it: its figure can exceed 1.
-- @source   metrics 2.F compute_utilization (defects D01, D08, D09)
WITH
    spans AS (
        SELECT trace, rank, TRY_CAST(sum(compute_ns) AS BIGINT) AS compute_ns
        FROM _device_times
        GROUP BY trace, rank
    ),

    per_rank AS (
        SELECT
            w.trace,
            w.rank,
            CAST(coalesce(s.compute_ns, 0) AS DOUBLE)
                / nullif((w.end_ns - w.start_ns) * w.device_count, 0) AS fraction
        FROM _windows AS w
        LEFT JOIN spans AS s ON s.trace = w.trace AND s.rank = w.rank
        WHERE w.basis = 'device'
    )

SELECT
    trace,
    avg(fraction ORDER BY rank) AS compute_utilization_proxy,
    map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(fraction ORDER BY rank))
        AS per_rank
FROM per_rank
GROUP BY trace
ORDER BY trace
