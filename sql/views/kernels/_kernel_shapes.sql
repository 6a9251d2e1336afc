-- @view     _kernel_shapes
-- @summary  Kernels with their thread blocks and the multiprocessors of their device.
-- @partition rank
-- @requires device_events ranks launches host_events
-- @caveat   blocks_per_sm is what the profiler wrote; it counts where the grid or the
--           multiprocessors are unknown. A grid of 0 blocks is unknown.
-- @caveat   hipExtModuleLaunchKernel and hipHccModuleLaunchKernel take the grid in work-items, and
--           so it is recorded: blocks are these / the work-items of a block, rounded up.
WITH
    item_calls AS (
        SELECT DISTINCT trace, rank, event_id
        FROM host_events
        WHERE class = 'host_runtime'
            AND name IN ('hipExtModuleLaunchKernel', 'hipHccModuleLaunchKernel')
    ),

    item_launches AS (
        SELECT DISTINCT l.trace, l.event_id
        FROM launches AS l
        INNER JOIN item_calls AS c
            ON c.trace = l.trace AND c.rank = l.rank AND c.event_id = l.runtime_event_id
    ),

    sm_counts AS (
        SELECT trace, rank, max(sm_count) AS sm_count
        FROM ranks
        WHERE sm_count > 0
        GROUP BY trace, rank
    )

SELECT
    d.trace, d.rank, d.class, d.name, d.device, d.ts_ns, d.dur_ns, d.flops, s.sm_count,
    CASE
        WHEN d.grid_x <= 0 OR d.grid_y <= 0 OR d.grid_z <= 0 THEN NULL
        WHEN i.event_id IS NULL THEN CAST(d.grid_x AS DOUBLE) * d.grid_y * d.grid_z
        WHEN d.block_x > 0 AND d.block_y > 0 AND d.block_z > 0
            THEN ceil(d.grid_x / CAST(d.block_x AS DOUBLE))
                * ceil(d.grid_y / CAST(d.block_y AS DOUBLE))
                * ceil(d.grid_z / CAST(d.block_z AS DOUBLE))
    END AS blocks,
    CASE WHEN d.blocks_per_sm > 0 THEN d.blocks_per_sm END AS blocks_per_sm
FROM device_events AS d
LEFT JOIN sm_counts AS s ON s.trace = d.trace AND s.rank = d.rank
LEFT JOIN item_launches AS i ON i.trace = d.trace AND i.event_id = d.event_id
WHERE d.class IN ('compute', 'comm') AND d.dur_ns >= 0 AND d.rank IS NOT NULL
