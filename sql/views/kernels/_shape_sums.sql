-- @view     _shape_sums
-- @summary  Kernels of each rank by name, thread blocks and multiprocessors of the device.
-- @materialize session
-- @partition rank
-- @requires _kernel_shapes
SELECT
    trace, rank, class, name, sm_count, blocks, blocks_per_sm,
    count(*) AS kernels,
    sum(dur_ns) AS dur_ns
FROM _kernel_shapes
GROUP BY trace, rank, class, name, sm_count, blocks, blocks_per_sm
