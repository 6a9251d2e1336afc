-- @metric   compute_efficiency
-- @version  1
-- @area     devices
-- @summary  Share of the window of a rank in which its devices compute, mean over ranks.
-- @grain    trace
-- @requires device_events
-- @reads    _rank_times _class_reasons
-- @value    compute_efficiency_pct
-- @null     no device event has a duration
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'compute')
--           | the names of some kernels are lost, or whole CUDA graphs were traced
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   compute_efficiency_pct DOUBLE value pct higher | 100 x |compute| / window of a rank,
--           mean over ranks.
-- @column   of_busy_pct DOUBLE value pct higher | 100 x |compute| / |all device events|, mean over
--           ranks.
-- @column   compute_time_s DOUBLE value s | |compute|, summed over the devices of a rank, mean over
--           ranks.
-- @column   window_s DOUBLE value s | First start to last end of the device events of a rank, times
--           its devices; mean over ranks.
-- @column   per_rank MAP value pct | Share of each rank.
-- @caveat   It says how long devices compute, not how fast: a kernel that fills one multiprocessor
--           counts as much as one that fills all.
-- @source   metrics 2.F compute_utilization (defects D01, D08, D09); compute_utilization_proxy as a
--           percentage
WITH
    per_rank AS (
        SELECT
            trace, rank, compute_ns, window_ns,
            100.0 * compute_ns / nullif(window_ns, 0) AS window_pct,
            100.0 * compute_ns / nullif(busy_ns, 0) AS busy_pct
        FROM _rank_times
        WHERE basis = 'device'
    )

SELECT
    trace,
    avg(window_pct ORDER BY rank) AS compute_efficiency_pct,
    avg(busy_pct ORDER BY rank) AS of_busy_pct,
    avg(compute_ns) / 1e9 AS compute_time_s,
    avg(window_ns) / 1e9 AS window_s,
    map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(window_pct ORDER BY rank))
        AS per_rank
FROM per_rank
GROUP BY trace
ORDER BY trace
