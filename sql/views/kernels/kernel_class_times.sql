-- @view     kernel_class_times
-- @summary  Kernel time of all ranks by what the kernels do.
-- @requires _kernel_sums
-- @null     the trace has no kernels
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   class VARCHAR dim - | Class of kernel_patterns; other where no pattern matches.
-- @column   time_ms DOUBLE value ms lower | Durations added up.
-- @column   share_pct DOUBLE value pct | Share of all kernel time.
-- @column   kernel_count BIGINT value count | Kernels.
-- @source   metrics 2.F kernel
SELECT
    trace,
    kernel_class AS class,
    sum(dur_ns) / 1e6 AS time_ms,
    100 * CAST(sum(dur_ns) AS DOUBLE) / nullif(sum(sum(dur_ns)) OVER (PARTITION BY trace), 0) AS share_pct,
    CAST(sum(events) AS BIGINT) AS kernel_count
FROM _kernel_sums
GROUP BY trace, kernel_class
ORDER BY trace, time_ms DESC, class
