-- @view     _kernel_coverage
-- @summary  Share of the kernel time of a trace of which nobody knows what it does: no name,
--           category or operator says it. No row where kernels take no time.
-- @materialize session
-- @requires _kernel_sums
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   unclassified_ratio DOUBLE value ratio | Time of kernels of class other / time of all
--           kernels, all ranks.
SELECT
    trace,
    coalesce(sum(dur_ns) FILTER (WHERE kernel_class = 'other'), 0) / CAST(sum(dur_ns) AS DOUBLE)
        AS unclassified_ratio
FROM _kernel_sums
GROUP BY trace
HAVING sum(dur_ns) > 0
