-- @metric   low_sm_coverage_fraction_pct
-- @version  1
-- @area     devices
-- @summary  Share of kernel time in kernels whose thread blocks are too few for the multiprocessors
--           of the device.
-- @grain    trace
-- @profilers kineto nsys xla
-- @requires device_events
-- @reads    _shape_sums _shape_reasons
-- @value    low_sm_coverage_fraction_pct
-- @alias    low_sm_coverage_fraction
-- @reason   (SELECT why FROM _shape_reasons)
--           | whole CUDA graphs were traced, or no kernel that takes time states a usable number of
--           blocks
-- @coverage known_ratio | the number of blocks and of multiprocessors is, by the time of the
--           kernels,
-- @null     the trace does not say how many multiprocessors a device has: give them with -p
--           sm_count=132
-- @param    threshold_pct DOUBLE 50 | Coverage, 100 x blocks / multiprocessors, below which a
--           kernel counts.
-- @param    sm_count BIGINT NULL | Multiprocessors of a device where the trace does not say them.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   low_sm_coverage_fraction_pct DOUBLE value pct lower | 100 x durations of the kernels
--           with coverage below threshold_pct / durations of the kernels whose shape is known, mean
--           over ranks.
-- @column   of_compute_pct DOUBLE value pct lower | The same of kernels of class compute only:
--           those of communication take few blocks on purpose.
-- @column   low_kernel_count BIGINT value count | Kernels below the threshold, all ranks.
-- @column   known_ratio DOUBLE value ratio | Share of the kernel time of all ranks for which blocks
--           and multiprocessors are known.
-- @column   top_kernels LIST value - | The 10 names with most time below the threshold: total_ms,
--           count, pct of the time below it, over all ranks.
-- @column   per_rank MAP value pct | Share of each rank.
-- @caveat   Few blocks do not make a kernel memory bound; the tool that had it so called this
--           memory_bound_fraction for Nsight Systems.
-- @source   metrics 2.F memory_bound_fraction_pct (defects D46, D47: a name of its own for this
--           definition)
WITH
    kernels AS (
        SELECT
            trace, rank, class, name, kernels, dur_ns,
            100.0 * coalesce(blocks / coalesce(sm_count, nullif($sm_count, 0)), blocks_per_sm)
                AS coverage_pct
        FROM _shape_sums
    ),

    per_rank AS (
        SELECT
            trace, rank,
            sum(dur_ns) AS dur_ns,
            coalesce(sum(dur_ns) FILTER (WHERE coverage_pct IS NOT NULL), 0) AS known_ns,
            coalesce(sum(dur_ns) FILTER (WHERE coverage_pct < $threshold_pct), 0) AS low_ns,
            sum(dur_ns) FILTER (WHERE coverage_pct IS NOT NULL AND class = 'compute') AS compute_ns,
            coalesce(
                sum(dur_ns) FILTER (WHERE coverage_pct < $threshold_pct AND class = 'compute'), 0
            ) AS low_compute_ns,
            coalesce(sum(kernels) FILTER (WHERE coverage_pct < $threshold_pct), 0) AS low_kernels
        FROM kernels
        GROUP BY trace, rank
    ),

    names AS (
        SELECT
            trace, name, sum(dur_ns) AS dur_ns, TRY_CAST(sum(kernels) AS BIGINT) AS kernels,
            sum(sum(dur_ns)) OVER (PARTITION BY trace) AS total_ns
        FROM kernels
        WHERE coverage_pct < $threshold_pct
        GROUP BY trace, name
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY sum(dur_ns) DESC, name) <= 10
    ),

    name_lists AS (
        SELECT
            trace,
            array_agg({
                name: name, total_ms: dur_ns / 1e6, count: kernels,
                pct: 100.0 * dur_ns / nullif(total_ns, 0)
            } ORDER BY dur_ns DESC, name) AS top_kernels
        FROM names
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace,
            avg(100.0 * low_ns / nullif(known_ns, 0) ORDER BY rank) AS low_pct,
            avg(100.0 * low_compute_ns / nullif(compute_ns, 0) ORDER BY rank) AS of_compute_pct,
            TRY_CAST(sum(low_kernels) AS BIGINT) AS low_kernel_count,
            CAST(sum(known_ns) AS DOUBLE) / nullif(sum(dur_ns), 0) AS known_ratio,
            map(
                array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
                array_agg(100.0 * low_ns / nullif(known_ns, 0) ORDER BY rank)
            ) AS per_rank
        FROM per_rank
        GROUP BY trace
    )

SELECT
    t.trace, t.low_pct AS low_sm_coverage_fraction_pct, t.of_compute_pct, t.low_kernel_count,
    t.known_ratio, coalesce(n.top_kernels, []) AS top_kernels, t.per_rank
FROM totals AS t
LEFT JOIN name_lists AS n ON n.trace = t.trace
ORDER BY t.trace
