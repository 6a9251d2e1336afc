-- @metric   sm
-- @version  1
-- @area     devices
-- @summary  Share of the multiprocessors of a device that the thread blocks of its kernels are
--           enough for, weighted by duration; and how active they were where that was sampled.
-- @grain    trace
-- @profilers kineto nsys xla
-- @requires device_events
-- @reads    _shape_sums _windows counters _shape_reasons
-- @value    sm_coverage_pct
-- @alias    mean_sm_coverage
-- @reason   (SELECT why FROM _shape_reasons)
--           | whole CUDA graphs were traced, or no kernel that takes time states a usable number of
--           blocks
-- @coverage known_ratio | the number of blocks and of multiprocessors is, by the time of the
--           kernels,
-- @null     the trace does not say how many multiprocessors a device has: give them with -p
--           sm_count=132
-- @param    sm_count BIGINT NULL | Multiprocessors of a device where the trace does not say them.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   sm_coverage_pct DOUBLE value pct higher | 100 x sum of duration x min(blocks /
--           multiprocessors, 1) / sum of duration, over the kernels whose shape is known; mean over
--           ranks.
-- @column   sm_active_pct DOUBLE value pct higher | Mean of the sampled counter of active
--           multiprocessors inside the window of the rank, mean over ranks; NULL where none was
--           sampled.
-- @column   compute_coverage_pct DOUBLE value pct higher | The same as sm_coverage_pct, of kernels
--           of class compute only.
-- @column   unweighted_coverage_pct DOUBLE value pct | Mean over the kernels, each counting once,
--           of all ranks.
-- @column   known_ratio DOUBLE value ratio | Share of the kernel time of all ranks for which blocks
--           and multiprocessors are known.
-- @column   sm_count BIGINT value count | Multiprocessors of the device of the lowest rank that
--           says them, else those given.
-- @column   per_rank LIST value - | Coverage, that of class compute, sampled activity,
--           multiprocessors and kernels of each rank.
-- @caveat   Blocks enough for every multiprocessor do not make it busy: coverage says nothing of
--           registers, waiting or occupancy. Only sm_active_pct is measured.
-- @source   metrics 2.F sm_coverage_pct (defect D46: weighted by duration for all profilers,
--           multiprocessors of each device)
WITH
    shapes AS (
        SELECT
            trace, rank, class, sm_count,
            coalesce(blocks / coalesce(sm_count, nullif($sm_count, 0)), blocks_per_sm) AS coverage,
            sum(dur_ns) AS dur_ns,
            sum(kernels) AS kernels
        FROM _shape_sums
        GROUP BY trace, rank, class, sm_count, coverage
    ),

    -- What is unknown stays unknown: the least of NULL and 1 would be 1.
    capped AS (
        SELECT
            trace, rank, class, sm_count, dur_ns, kernels,
            CASE WHEN coverage IS NOT NULL THEN least(coverage, 1) END AS coverage
        FROM shapes
    ),

    rank_sums AS (
        SELECT
            trace, rank,
            max(sm_count) AS sm_count,
            TRY_CAST(sum(kernels) AS BIGINT) AS kernels,
            sum(dur_ns) AS dur_ns,
            coalesce(sum(dur_ns) FILTER (WHERE coverage IS NOT NULL), 0) AS known_ns,
            coalesce(sum(dur_ns) FILTER (WHERE coverage IS NOT NULL AND class = 'compute'), 0)
                AS compute_ns,
            sum(dur_ns * coverage ORDER BY coverage, class, dur_ns) AS covered_ns,
            sum(dur_ns * coverage ORDER BY coverage, dur_ns) FILTER (WHERE class = 'compute')
                AS compute_covered_ns,
            sum(kernels * coverage ORDER BY coverage, class, kernels) AS covered_kernels,
            TRY_CAST(sum(kernels) FILTER (WHERE coverage IS NOT NULL) AS BIGINT) AS known_kernels
        FROM capped
        GROUP BY trace, rank
    ),

    samples AS (
        SELECT c.trace, c.rank, c.device, avg(c.value ORDER BY c.ts_ns, c.value) AS active_pct
        FROM counters AS c
        INNER JOIN _windows AS w ON w.trace = c.trace AND w.rank = c.rank
        WHERE c.source = 'nsys'
            AND (lower(c.name) LIKE 'sm active%' OR lower(c.name) LIKE 'sms active%')
            AND c.ts_ns >= w.start_ns AND c.ts_ns < w.end_ns
        GROUP BY c.trace, c.rank, c.device
    ),

    rank_samples AS (
        SELECT trace, rank, avg(active_pct ORDER BY device) AS active_pct
        FROM samples
        GROUP BY trace, rank
    ),

    per_rank AS (
        SELECT
            r.trace, r.rank, r.sm_count, r.kernels, r.known_kernels, r.dur_ns, r.known_ns,
            r.covered_kernels, a.active_pct,
            100.0 * r.covered_ns / nullif(r.known_ns, 0) AS coverage_pct,
            100.0 * r.compute_covered_ns / nullif(r.compute_ns, 0) AS compute_pct
        FROM rank_sums AS r
        LEFT JOIN rank_samples AS a ON a.trace = r.trace AND a.rank = r.rank
    )

SELECT
    trace,
    avg(coverage_pct ORDER BY rank) AS sm_coverage_pct,
    avg(active_pct ORDER BY rank) AS sm_active_pct,
    avg(compute_pct ORDER BY rank) AS compute_coverage_pct,
    100.0 * sum(covered_kernels ORDER BY rank) / nullif(sum(known_kernels), 0)
        AS unweighted_coverage_pct,
    CAST(sum(known_ns) AS DOUBLE) / nullif(sum(dur_ns), 0) AS known_ratio,
    coalesce(
        list_extract(
            array_agg(sm_count ORDER BY rank) FILTER (WHERE sm_count IS NOT NULL), 1
        ),
        $sm_count
    ) AS sm_count,
    array_agg({
        rank: rank, sm_coverage_pct: coverage_pct, compute_coverage_pct: compute_pct,
        sm_active_pct: active_pct, sm_count: coalesce(sm_count, $sm_count), kernels: kernels
    } ORDER BY rank) AS per_rank
FROM per_rank
GROUP BY trace
ORDER BY trace
