-- @metric   compute_bound_fraction_pct
-- @version  1
-- @area     devices
-- @summary  Share of kernel time in kernels that are long and have thread blocks enough for the
--           multiprocessors of the device.
-- @grain    trace
-- @profilers kineto nsys xla
-- @requires device_events
-- @reads    _shape_times _shape_reasons
-- @value    compute_bound_fraction_pct
-- @alias    compute_bound_fraction
-- @reason   (SELECT why FROM _shape_reasons)
--           | whole CUDA graphs were traced, or no kernel that takes time states a usable number of
--           blocks
-- @coverage known_ratio | the number of blocks and of multiprocessors is, by the time of the
--           kernels,
-- @null     the trace does not say how many multiprocessors a device has: give them with -p
--           sm_count=132
-- @param    threshold_pct DOUBLE 70 | Coverage, 100 x blocks / multiprocessors, above which a
--           kernel counts.
-- @param    min_us DOUBLE 10 | Duration in microseconds above which a kernel counts.
-- @param    sm_count BIGINT NULL | Multiprocessors of a device where the trace does not say them.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   compute_bound_fraction_pct DOUBLE value pct higher | 100 x durations of the kernels
--           with coverage above threshold_pct and longer than min_us / durations of the kernels
--           whose shape is known, mean over ranks.
-- @column   of_compute_pct DOUBLE value pct higher | The same of kernels of class compute only.
-- @column   large_kernel_count BIGINT value count | Kernels that count, all ranks.
-- @column   known_ratio DOUBLE value ratio | Share of the kernel time of all ranks for which blocks
--           and multiprocessors are known.
-- @column   per_rank MAP value pct | Share of each rank.
-- @caveat   A rule of thumb: a long kernel with many blocks may still wait for memory.
--           memory_bound_fraction_pct tells the two apart where the trace states operations and
--           bytes; the two shares do not add up to 100.
-- @source   metrics 2.F compute_bound_fraction_pct (defect D48)
WITH
    kernels AS (
        SELECT
            trace, rank, class, dur_ns, kernels, sum_ns,
            100.0 * coalesce(blocks / coalesce(sm_count, nullif($sm_count, 0)), blocks_per_sm)
                AS coverage_pct
        FROM _shape_times
    ),

    judged AS (
        SELECT
            trace, rank, class, kernels, sum_ns,
            coverage_pct IS NOT NULL AS is_known,
            coverage_pct > $threshold_pct AND dur_ns > 1e3 * $min_us AS is_large
        FROM kernels
    ),

    per_rank AS (
        SELECT
            trace, rank,
            sum(sum_ns) AS dur_ns,
            coalesce(sum(sum_ns) FILTER (WHERE is_known), 0) AS known_ns,
            coalesce(sum(sum_ns) FILTER (WHERE is_large), 0) AS large_ns,
            sum(sum_ns) FILTER (WHERE is_known AND class = 'compute') AS compute_ns,
            coalesce(sum(sum_ns) FILTER (WHERE is_large AND class = 'compute'), 0) AS large_compute_ns,
            coalesce(sum(kernels) FILTER (WHERE is_large), 0) AS large_kernels
        FROM judged
        GROUP BY trace, rank
    )

SELECT
    trace,
    avg(100.0 * large_ns / nullif(known_ns, 0) ORDER BY rank) AS compute_bound_fraction_pct,
    avg(100.0 * large_compute_ns / nullif(compute_ns, 0) ORDER BY rank) AS of_compute_pct,
    TRY_CAST(sum(large_kernels) AS BIGINT) AS large_kernel_count,
    CAST(sum(known_ns) AS DOUBLE) / nullif(sum(dur_ns), 0) AS known_ratio,
    map(
        array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
        array_agg(100.0 * large_ns / nullif(known_ns, 0) ORDER BY rank)
    ) AS per_rank
FROM per_rank
GROUP BY trace
ORDER BY trace
