-- @view     _shape_reasons
-- @summary  Why the shapes of kernels do not say how much of a device they fill.
-- @reads    _shape_sums _device_counts
-- @caveat   One row, whatever the trace has; NULL where they say it.
SELECT
    CASE
        WHEN count(*) FILTER (WHERE class = 'graph') > 0
            THEN 'whole CUDA graphs were traced, so that the kernels inside them are not in the trace'
        WHEN coalesce(sum(shape_values), 0) = 0 THEN 'no kernel states its grid'
        WHEN NOT EXISTS (
            SELECT 1 FROM _shape_sums WHERE coalesce(blocks, blocks_per_sm) > 0 AND dur_ns > 0
        )
            THEN 'no kernel that takes time states a usable number of blocks'
    END AS why
FROM _device_counts
