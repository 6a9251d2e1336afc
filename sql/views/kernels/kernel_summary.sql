-- @view     kernel_summary
-- @summary  Kernels of all ranks by name: how many, how long.
-- @requires _kernel_sums
-- @null     the trace has no kernels
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   name VARCHAR dim - | Name as recorded.
-- @column   class VARCHAR dim - | Class of kernel_patterns; other where no pattern matches.
-- @column   kernel_count BIGINT value count | Kernels.
-- @column   total_ms DOUBLE value ms lower | Durations added up.
-- @column   mean_us DOUBLE value us lower | Mean duration.
-- @column   share_pct DOUBLE value pct | Share of all kernel time.
-- @source   metrics 2.F kernel
SELECT
    trace, name, kernel_class AS class,
    CAST(sum(events) AS BIGINT) AS kernel_count,
    sum(dur_ns) / 1e6 AS total_ms,
    sum(dur_ns) / 1e3 / sum(events) AS mean_us,
    100 * CAST(sum(dur_ns) AS DOUBLE) / nullif(sum(sum(dur_ns)) OVER (PARTITION BY trace), 0) AS share_pct
FROM _kernel_sums
GROUP BY trace, name, kernel_class
ORDER BY trace, total_ms DESC, name, class
