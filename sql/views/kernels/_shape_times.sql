-- @view     _shape_times
-- @summary  How many kernels of each rank have the same thread blocks, multiprocessors and
--           duration.
-- @materialize session
-- @partition rank
-- @requires _kernel_shapes
SELECT
    trace, rank, class, sm_count, blocks, blocks_per_sm, dur_ns,
    count(*) AS kernels,
    sum(dur_ns) AS sum_ns
FROM _kernel_shapes
GROUP BY trace, rank, class, sm_count, blocks, blocks_per_sm, dur_ns
ORDER BY trace, rank, class, sm_count, blocks, blocks_per_sm, dur_ns
