-- @view     short_kernel_histogram
-- @summary  Kernels of less than 50 microseconds of all ranks by their duration, a microsecond a
--           bin.
-- @requires short_kernel_histogram_by_rank
-- @null     the trace has no kernel of less than 50 microseconds
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   bin_start_us BIGINT dim us | Durations from here on.
-- @column   bin_end_us BIGINT value us | Up to here, this one not among them.
-- @column   kernel_count BIGINT value count | Kernels.
-- @column   total_ms DOUBLE value ms lower | Their durations added up.
-- @heading  bin_start_us | bin_start (us)
-- @heading  bin_end_us | bin_end (us)
-- @heading  kernel_count | count
-- @source   TraceLens short_kernel_histogram, at the threshold of short_kernels_summary and with
--           bins that do not depend on the trace
SELECT
    trace, bin_start_us, bin_end_us,
    CAST(sum(kernel_count) AS BIGINT) AS kernel_count,
    sum(total_ms ORDER BY rank) AS total_ms
FROM short_kernel_histogram_by_rank
GROUP BY trace, bin_start_us, bin_end_us
ORDER BY trace, bin_start_us
