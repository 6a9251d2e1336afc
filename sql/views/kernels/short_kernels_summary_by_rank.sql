-- @view     short_kernels_summary_by_rank
-- @summary  Kernels of less than 50 microseconds of each rank by name: those whose launch may cost
--           more than they do.
-- @requires device_events
-- @null     the trace has no kernel of less than 50 microseconds
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank; NULL for devices that are of none.
-- @column   name VARCHAR dim - | Name as recorded.
-- @column   kernel_count BIGINT value count | Kernels of less than 50 microseconds.
-- @column   total_ms DOUBLE value ms lower | Durations of these added up.
-- @column   mean_us DOUBLE value us | Mean duration.
-- @column   share_pct DOUBLE value pct | Their share of all kernel time of the rank.
-- @source   metrics 7.1 short_kernels_summary, at its threshold
WITH
    sums AS (
        SELECT
            trace, rank, name,
            count(*) FILTER (WHERE dur_ns < 50000) AS kernel_count,
            sum(dur_ns) FILTER (WHERE dur_ns < 50000) AS short_ns,
            sum(sum(dur_ns)) OVER (PARTITION BY trace, rank) AS all_ns
        FROM device_events
        WHERE class IN ('compute', 'comm')
        GROUP BY trace, rank, name
    )

SELECT
    trace, rank, name, kernel_count,
    short_ns / 1e6 AS total_ms,
    short_ns / 1e3 / kernel_count AS mean_us,
    100 * CAST(short_ns AS DOUBLE) / nullif(all_ns, 0) AS share_pct
FROM sums
WHERE kernel_count > 0
ORDER BY trace, rank, total_ms DESC, name
