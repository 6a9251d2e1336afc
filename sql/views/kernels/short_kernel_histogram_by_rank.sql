-- @view     short_kernel_histogram_by_rank
-- @summary  Kernels of less than 50 microseconds of each rank by their duration, a microsecond a
--           bin.
-- @requires device_events
-- @null     the trace has no kernel of less than 50 microseconds
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank; NULL for devices that are of none.
-- @column   bin_start_us BIGINT dim us | Durations from here on.
-- @column   bin_end_us BIGINT value us | Up to here, this one not among them.
-- @column   kernel_count BIGINT value count | Kernels.
-- @column   total_ms DOUBLE value ms lower | Their durations added up.
-- @heading  bin_start_us | bin_start (us)
-- @heading  bin_end_us | bin_end (us)
-- @heading  kernel_count | count
-- @source   TraceLens short_kernel_histogram, at the threshold of short_kernels_summary and with
--           bins that do not depend on the trace
WITH
    short AS (
        SELECT trace, rank, dur_ns // 1000 AS bin, count(*) AS kernel_count, sum(dur_ns) AS dur_ns
        FROM device_events
        WHERE class IN ('compute', 'comm') AND dur_ns < 50000
        GROUP BY trace, rank, dur_ns // 1000
    ),

    ranks_of AS (
        SELECT DISTINCT trace, rank
        FROM short
    ),

    -- Empty bins are rows too: a plot of the rows is the histogram.
    bins AS (
        SELECT r.trace, r.rank, b.bin
        FROM ranks_of AS r
        CROSS JOIN (SELECT unnest(range(50)) AS bin) AS b
    )

SELECT
    b.trace, b.rank, b.bin AS bin_start_us, b.bin + 1 AS bin_end_us,
    coalesce(s.kernel_count, 0) AS kernel_count,
    coalesce(s.dur_ns, 0) / 1e6 AS total_ms
FROM bins AS b
LEFT JOIN short AS s ON s.bin = b.bin AND s.trace = b.trace AND s.rank IS NOT DISTINCT FROM b.rank
ORDER BY b.trace, b.rank, b.bin
