-- @view     ops_summary_by_category
-- @summary  What operators of all ranks launch, by what the kernels do: how many, how long.
-- @requires _kernel_sums
-- @null     no kernel names the operator that launched it
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   category VARCHAR dim - | Class of kernel_patterns; other where no pattern matches.
-- @column   op_count BIGINT value count | Operators by name.
-- @column   kernel_count BIGINT value count | Kernels that they launched.
-- @column   total_ms DOUBLE value ms lower | Durations of these added up.
-- @column   share_pct DOUBLE value pct | Share of the kernel time of all operators.
-- @column   cumulative_pct DOUBLE value pct | Share of this and all categories above.
-- @heading  category | op category
-- @heading  total_ms | total_direct_kernel_time_ms
-- @heading  share_pct | Percentage (%)
-- @heading  cumulative_pct | Cumulative Percentage (%)
-- @source   TraceLens ops_summary_by_category, by the kernels and not by names of operators
WITH
    sums AS (
        SELECT
            trace, kernel_class AS category,
            count(DISTINCT op_name) AS op_count,
            CAST(sum(events) AS BIGINT) AS kernel_count,
            sum(dur_ns) AS dur_ns
        FROM _kernel_sums
        WHERE op_name IS NOT NULL
        GROUP BY trace, kernel_class
    )

SELECT
    trace, category, op_count, kernel_count,
    dur_ns / 1e6 AS total_ms,
    100 * CAST(dur_ns AS DOUBLE) / nullif(sum(dur_ns) OVER (PARTITION BY trace), 0) AS share_pct,
    100 * CAST(sum(dur_ns) OVER (PARTITION BY trace ORDER BY dur_ns DESC, category) AS DOUBLE)
        / nullif(sum(dur_ns) OVER (PARTITION BY trace), 0) AS cumulative_pct
FROM sums
ORDER BY trace, total_ms DESC, category
