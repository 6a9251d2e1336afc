-- @view     ops_summary
-- @summary  Operators of all ranks by the kernels that they launch: how many, how long.
-- @requires _kernel_sums
-- @null     no kernel names the operator that launched it
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   op_name VARCHAR dim - | Innermost operator on the host.
-- @column   kernel_count BIGINT value count | Kernels that it launched.
-- @column   total_ms DOUBLE value ms lower | Durations of these added up.
-- @column   share_pct DOUBLE value pct | Share of all kernel time, that of no known operator
--           included.
-- @source   metrics 7.1 ops_summary
WITH
    totals AS (
        SELECT trace, sum(dur_ns) AS all_ns
        FROM _kernel_sums
        GROUP BY trace
    )

SELECT
    k.trace, k.op_name,
    CAST(sum(k.events) AS BIGINT) AS kernel_count,
    sum(k.dur_ns) / 1e6 AS total_ms,
    100 * CAST(sum(k.dur_ns) AS DOUBLE) / nullif(any_value(t.all_ns), 0) AS share_pct
FROM _kernel_sums AS k
INNER JOIN totals AS t ON t.trace = k.trace
WHERE k.op_name IS NOT NULL
GROUP BY k.trace, k.op_name
ORDER BY k.trace, total_ms DESC, k.op_name
