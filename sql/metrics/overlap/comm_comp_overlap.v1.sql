-- @metric   comm_comp_overlap
-- @version  1
-- @area     overlap
-- @summary  Share of communication time during which the same device also computes: |comm ∩
--           compute| / |comm|, whole trace.
-- @grain    trace
-- @requires device_events
-- @reads    _device_times _device_counts _kernel_coverage _class_reasons
-- @alias    communication_overlap_ratio
-- @value    overlap_ratio_of_comm
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'communication')
--           | the names of some kernels are lost, or communication is in CUDA graphs that were
--           traced as a whole
-- @check    (SELECT count(*) FROM _device_counts WHERE class = 'comm') > 0
--           | the trace has no communication on a device
-- @check    (SELECT count(*) FROM _device_counts WHERE class = 'comm' AND lasting_events > 0) > 0
--           | no communication event on a device has a duration above 0
-- @null     no communication event with a device number has a duration above 0
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   overlap_ratio_of_comm DOUBLE value ratio higher | Sum of |comm ∩ compute| / sum of
--           |comm|, over ranks and devices.
-- @column   overlap_ratio_of_comp DOUBLE value ratio | Sum of |comm ∩ compute| / sum of |compute|.
-- @column   comm_time_ms DOUBLE value ms | Union of communication, summed over ranks and devices.
-- @column   comp_time_ms DOUBLE value ms | Union of compute, summed over ranks and devices.
-- @column   overlap_time_ms DOUBLE value ms | What lies in both.
-- @column   exposed_comm_time_ms DOUBLE value ms lower | Communication without compute beside it.
-- @column   comm_kernels BIGINT value count | Device events of class comm.
-- @column   comp_kernels BIGINT value count | Device events of class compute.
-- @column   per_rank LIST value - | The same times and ratio for each rank.
-- @column   window_basis VARCHAR value - | What was measured: whole_trace.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @source   metrics 2.E overlap_of_comm_pct and 1.5 (defects D41 to D43: unions on both sides,
--           copies are not compute)
WITH
    per_rank AS (
        SELECT
            trace,
            rank,
            TRY_CAST(sum(comm_ns) AS BIGINT) AS comm_ns,
            TRY_CAST(sum(compute_ns) AS BIGINT) AS compute_ns,
            TRY_CAST(sum(overlap_ns) AS BIGINT) AS overlap_ns
        FROM _device_times
        WHERE device IS NOT NULL
        GROUP BY trace, rank
    ),

    totals AS (
        SELECT
            trace,
            TRY_CAST(sum(comm_ns) AS BIGINT) AS comm_ns,
            TRY_CAST(sum(compute_ns) AS BIGINT) AS compute_ns,
            TRY_CAST(sum(overlap_ns) AS BIGINT) AS overlap_ns,
            array_agg({
                rank: rank,
                comm_time_ms: comm_ns / 1e6,
                comp_time_ms: compute_ns / 1e6,
                overlap_time_ms: overlap_ns / 1e6,
                exposed_comm_time_ms: (comm_ns - overlap_ns) / 1e6,
                overlap_ratio_of_comm: CAST(overlap_ns AS DOUBLE) / nullif(comm_ns, 0)
            } ORDER BY rank) AS per_rank
        FROM per_rank
        GROUP BY trace
    ),

    kernel_counts AS (
        SELECT
            trace,
            TRY_CAST(coalesce(sum(events) FILTER (WHERE class = 'comm'), 0) AS BIGINT) AS comm_kernels,
            TRY_CAST(coalesce(sum(events) FILTER (WHERE class = 'compute'), 0) AS BIGINT)
                AS comp_kernels
        FROM _device_counts
        WHERE rank IS NOT NULL
        GROUP BY trace
    )

SELECT
    t.trace,
    CAST(t.overlap_ns AS DOUBLE) / nullif(t.comm_ns, 0) AS overlap_ratio_of_comm,
    CAST(t.overlap_ns AS DOUBLE) / nullif(t.compute_ns, 0) AS overlap_ratio_of_comp,
    t.comm_ns / 1e6 AS comm_time_ms,
    t.compute_ns / 1e6 AS comp_time_ms,
    t.overlap_ns / 1e6 AS overlap_time_ms,
    (t.comm_ns - t.overlap_ns) / 1e6 AS exposed_comm_time_ms,
    k.comm_kernels,
    k.comp_kernels,
    t.per_rank,
    'whole_trace' AS window_basis
FROM totals AS t
INNER JOIN kernel_counts AS k ON k.trace = t.trace
ORDER BY t.trace
