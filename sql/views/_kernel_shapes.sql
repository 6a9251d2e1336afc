-- @view     _kernel_shapes
-- @summary  Kernels with their thread blocks and the multiprocessors of their device.
-- @requires device_events ranks
-- @caveat   blocks_per_sm is what the profiler wrote; it counts where the grid or the multiprocessors are unknown. A grid of 0 blocks is unknown.
WITH
    sm_counts AS (
        SELECT trace, rank, max(sm_count) AS sm_count
        FROM ranks
        WHERE sm_count > 0 AND rank IS NOT NULL
        GROUP BY trace, rank
    )

SELECT
    d.trace, d.rank, d.class, d.name, d.dur_ns, s.sm_count,
    CASE
        WHEN d.grid_x > 0 AND d.grid_y > 0 AND d.grid_z > 0
            THEN CAST(d.grid_x AS DOUBLE) * d.grid_y * d.grid_z
    END AS blocks,
    CASE WHEN d.blocks_per_sm > 0 THEN d.blocks_per_sm END AS blocks_per_sm
FROM device_events AS d
LEFT JOIN sm_counts AS s ON s.trace = d.trace AND s.rank = d.rank
WHERE d.class IN ('compute', 'comm') AND d.dur_ns >= 0 AND d.rank IS NOT NULL
