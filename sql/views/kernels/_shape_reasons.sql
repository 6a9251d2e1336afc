-- @view     _shape_reasons
-- @summary  Why the shapes of kernels do not say how much of a device they fill.
-- @requires ranks
-- @reads    _shape_sums _device_counts
-- @caveat   One row for each trace, whatever it has; NULL where they say it.
WITH
    traces AS (
        SELECT DISTINCT trace
        FROM ranks
    ),

    counts AS (
        SELECT
            trace, count(*) FILTER (WHERE class = 'graph') AS graphs,
            sum(shape_values) AS shape_values
        FROM _device_counts
        GROUP BY trace
    ),

    usable AS (
        SELECT DISTINCT trace
        FROM _shape_sums
        WHERE coalesce(blocks, blocks_per_sm) > 0 AND dur_ns > 0
    )

SELECT
    t.trace,
    CASE
        WHEN c.graphs > 0
            THEN 'whole CUDA graphs were traced, so that the kernels inside them are not in the trace'
        WHEN coalesce(c.shape_values, 0) = 0 THEN 'no kernel states its grid'
        WHEN u.trace IS NULL
            THEN 'no kernel that takes time states a usable number of blocks'
    END AS why
FROM traces AS t
LEFT JOIN counts AS c ON c.trace = t.trace
LEFT JOIN usable AS u ON u.trace = t.trace
