-- @view     _kernel_sums
-- @summary  Kernels by name on each rank, with what they do.
-- @materialize session
-- @requires kernel_times kernel_classes
SELECT
    t.trace, t.source, t.rank, t.class, t.name, t.op_name, c.kernel_class, c.moe_part, t.events,
    t.dur_ns
FROM kernel_times AS t
INNER JOIN kernel_classes AS c
    ON c.trace = t.trace
    AND c.source = t.source
    AND c.class = t.class
    AND c.name IS NOT DISTINCT FROM t.name
    AND c.op_name IS NOT DISTINCT FROM t.op_name
