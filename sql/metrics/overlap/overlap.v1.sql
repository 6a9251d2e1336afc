-- @metric   overlap
-- @version  1
-- @area     overlap
-- @summary  How much of the communication of a rank its device computes beside, and how long the
--           device does nothing; means over ranks.
-- @grain    trace
-- @requires device_events
-- @reads    _rank_times _device_counts _kernel_coverage _class_reasons
-- @alias    compute_comm_overlap
-- @value    overlap_efficiency_pct
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'communication')
--           | the names of some kernels are lost, or communication is in CUDA graphs that were
--           traced as a whole
-- @null     no rank communicates on a device
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   overlap_efficiency_pct DOUBLE value pct higher | |comm ∩ compute| / |comm| of a rank,
--           mean over the ranks that communicate.
-- @column   compute_time_ms DOUBLE value ms | Union of compute; mean over ranks, as all times here.
-- @column   communication_time_ms DOUBLE value ms | Union of communication.
-- @column   overlap_time_ms DOUBLE value ms | What lies in both.
-- @column   exposed_communication_ms DOUBLE value ms lower | Communication without compute beside
--           it.
-- @column   bubble_time_ms DOUBLE value ms lower | Window - union of all device events: the device
--           does nothing.
-- @column   compute_pct DOUBLE value pct higher | Compute, of the window; mean over ranks.
-- @column   communication_pct DOUBLE value pct | Communication, of the window; mean over ranks.
-- @column   bubble_pct DOUBLE value pct lower | Bubble, of the window; mean over ranks.
-- @column   total_compute_kernels BIGINT value - | Kernels that compute, all ranks.
-- @column   total_comm_kernels BIGINT value - | Kernels that communicate, all ranks.
-- @column   per_rank LIST value - | The same of each rank.
-- @column   num_ranks BIGINT value count | Ranks with device events.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @caveat   A mean of ratios: comm_comp_overlap divides the sums instead. Waiting inside a kernel
--           of communication is no bubble; see bubble_time_s.
-- @source   metrics 2.E overlap_of_comm_pct and bubble_time_s (defects D11, D41, D43)
WITH
    counts AS (
        SELECT
            trace, rank,
            TRY_CAST(coalesce(sum(events) FILTER (WHERE class = 'comm'), 0) AS BIGINT) AS comm_kernels,
            TRY_CAST(coalesce(sum(events) FILTER (WHERE class = 'compute'), 0) AS BIGINT)
                AS compute_kernels
        FROM _device_counts
        WHERE rank IS NOT NULL
        GROUP BY trace, rank
    ),

    times AS (
        SELECT
            t.trace, t.rank, c.comm_kernels, c.compute_kernels,
            t.compute_ns / 1e6 AS compute_ms,
            t.comm_ns / 1e6 AS comm_ms,
            t.overlap_ns / 1e6 AS overlap_ms,
            (t.comm_ns - t.overlap_ns) / 1e6 AS exposed_ms,
            (t.window_ns - t.busy_ns) / 1e6 AS bubble_ms,
            100.0 * t.overlap_ns / nullif(t.comm_ns, 0) AS efficiency_pct,
            100.0 * t.compute_ns / nullif(t.window_ns, 0) AS compute_pct,
            100.0 * t.comm_ns / nullif(t.window_ns, 0) AS comm_pct,
            100.0 * (t.window_ns - t.busy_ns) / nullif(t.window_ns, 0) AS bubble_pct
        FROM _rank_times AS t
        INNER JOIN counts AS c ON c.trace = t.trace AND c.rank = t.rank
        WHERE t.basis = 'device'
    )

SELECT
    trace,
    avg(efficiency_pct ORDER BY rank) AS overlap_efficiency_pct,
    avg(compute_ms ORDER BY rank) AS compute_time_ms,
    avg(comm_ms ORDER BY rank) AS communication_time_ms,
    avg(overlap_ms ORDER BY rank) AS overlap_time_ms,
    avg(exposed_ms ORDER BY rank) AS exposed_communication_ms,
    avg(bubble_ms ORDER BY rank) AS bubble_time_ms,
    avg(compute_pct ORDER BY rank) AS compute_pct,
    avg(comm_pct ORDER BY rank) AS communication_pct,
    avg(bubble_pct ORDER BY rank) AS bubble_pct,
    TRY_CAST(sum(compute_kernels) AS BIGINT) AS total_compute_kernels,
    TRY_CAST(sum(comm_kernels) AS BIGINT) AS total_comm_kernels,
    array_agg({
        rank: rank, overlap_efficiency_pct: efficiency_pct, compute_time_ms: compute_ms,
        communication_time_ms: comm_ms, overlap_time_ms: overlap_ms,
        exposed_communication_ms: exposed_ms, bubble_time_ms: bubble_ms,
        compute_pct: compute_pct, communication_pct: comm_pct, bubble_pct: bubble_pct,
        compute_kernels: compute_kernels, comm_kernels: comm_kernels
    } ORDER BY rank) AS per_rank,
    count(*) AS num_ranks
FROM times
GROUP BY trace
ORDER BY trace
