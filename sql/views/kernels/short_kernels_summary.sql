-- @view     short_kernels_summary
-- @summary  Kernels of less than 50 microseconds by name: those whose launch may cost more than
--           they do.
-- @requires device_events
-- @null     the trace has no kernel of less than 50 microseconds
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   name VARCHAR dim - | Name as recorded.
-- @column   kernel_count BIGINT value count | Kernels of less than 50 microseconds, all ranks.
-- @column   total_ms DOUBLE value ms lower | Durations of these added up.
-- @column   mean_us DOUBLE value us | Mean duration.
-- @column   share_pct DOUBLE value pct | Their share of all kernel time.
-- @source   metrics 7.1 short_kernels_summary, at its threshold
WITH
    totals AS (
        SELECT trace, sum(dur_ns) AS all_ns
        FROM device_events
        WHERE class IN ('compute', 'comm')
        GROUP BY trace
    )

SELECT
    d.trace, d.name,
    count(*) AS kernel_count,
    sum(d.dur_ns) / 1e6 AS total_ms,
    avg(d.dur_ns) / 1e3 AS mean_us,
    100 * CAST(sum(d.dur_ns) AS DOUBLE) / nullif(any_value(t.all_ns), 0) AS share_pct
FROM device_events AS d
INNER JOIN totals AS t ON t.trace = d.trace
WHERE d.class IN ('compute', 'comm') AND d.dur_ns < 50000
GROUP BY d.trace, d.name
ORDER BY d.trace, total_ms DESC, d.name
