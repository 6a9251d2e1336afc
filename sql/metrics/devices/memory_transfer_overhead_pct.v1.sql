-- @metric   memory_transfer_overhead_pct
-- @version  1
-- @area     devices
-- @summary  Share of the window of a rank in which its devices copy and no kernel runs beside it,
--           mean over ranks.
-- @grain    trace
-- @requires device_events
-- @reads    _rank_times _device_times
-- @value    memory_transfer_overhead_pct
-- @alias    memory_transfer_overhead
-- @null     no device event has a duration
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   memory_transfer_overhead_pct DOUBLE value pct lower | 100 x |copies without kernels
--           beside them| / window, mean over ranks; per device, kernels of communication and whole
--           CUDA graphs are kernels too.
-- @column   copy_pct DOUBLE value pct | 100 x |copies| / window, mean over ranks.
-- @column   hidden_pct DOUBLE value pct higher | 100 x |copies beside kernels| / |copies|, over all
--           ranks; NULL without copies.
-- @column   exposed_copy_ms DOUBLE value ms lower | Copies without kernels beside them, mean over
--           ranks.
-- @column   copy_ms DOUBLE value ms | |copies|, mean over ranks.
-- @column   exposed_set_pct DOUBLE value pct lower | 100 x |sets without kernels or copies beside
--           them| / window, mean over ranks.
-- @column   per_rank MAP value pct | Share of each rank.
-- @caveat   The window of a rank with several devices is that of each device, added up.
-- @caveat   A copy that hides behind a kernel of communication hides behind no work.
-- @source   metrics 2.G memory_transfer_overhead_pct (defect D57: real copies, per device, one
--           clock)
WITH
    sums AS (
        SELECT
            trace, rank,
            TRY_CAST(sum(exposed_copy_ns) AS BIGINT) AS exposed_ns,
            TRY_CAST(sum(exposed_set_ns) AS BIGINT) AS set_ns
        FROM _device_times
        GROUP BY trace, rank
    ),

    per_rank AS (
        SELECT
            t.trace, t.rank, t.window_ns, t.copy_ns,
            coalesce(s.exposed_ns, 0) AS exposed_ns,
            100.0 * coalesce(s.exposed_ns, 0) / nullif(t.window_ns, 0) AS exposed_pct,
            100.0 * t.copy_ns / nullif(t.window_ns, 0) AS copy_pct,
            100.0 * coalesce(s.set_ns, 0) / nullif(t.window_ns, 0) AS set_pct
        FROM _rank_times AS t
        LEFT JOIN sums AS s ON s.trace = t.trace AND s.rank = t.rank
        WHERE t.basis = 'device'
    )

SELECT
    trace,
    avg(exposed_pct ORDER BY rank) AS memory_transfer_overhead_pct,
    avg(copy_pct ORDER BY rank) AS copy_pct,
    100.0 * (sum(copy_ns) - sum(exposed_ns)) / nullif(sum(copy_ns), 0) AS hidden_pct,
    avg(exposed_ns) / 1e6 AS exposed_copy_ms,
    avg(copy_ns) / 1e6 AS copy_ms,
    avg(set_pct ORDER BY rank) AS exposed_set_pct,
    map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(exposed_pct ORDER BY rank))
        AS per_rank
FROM per_rank
GROUP BY trace
ORDER BY trace
