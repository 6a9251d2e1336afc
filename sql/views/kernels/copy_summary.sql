-- @view     copy_summary
-- @summary  Copies on the devices of all ranks by direction and name: how many, what they carry,
--           how long they take.
-- @requires device_events copies
-- @null     the trace has no copies
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   direction VARCHAR dim - | h2d, d2h, d2d, p2p, h2h; NULL where nothing says one.
-- @column   name VARCHAR dim - | Name as recorded.
-- @column   copy_count BIGINT value count | Copies.
-- @column   total_bytes BIGINT value bytes | Bytes of those that state them.
-- @column   total_ms DOUBLE value ms lower | Durations added up.
-- @column   mean_us DOUBLE value us lower | Mean duration.
-- @column   max_us DOUBLE value us | Longest.
-- @column   share_pct DOUBLE value pct | Share of the time of all copies.
-- @column   rate_gb_per_s DOUBLE value gb_per_s higher | Bytes / time of those that state their
--           bytes.
-- @source   the view copies, by direction and name
SELECT
    trace, direction, name,
    count(*) AS copy_count,
    TRY_CAST(sum(bytes) AS BIGINT) AS total_bytes,
    sum(dur_ns) / 1e6 AS total_ms,
    avg(dur_ns) / 1e3 AS mean_us,
    max(dur_ns) / 1e3 AS max_us,
    100 * CAST(sum(dur_ns) AS DOUBLE) / nullif(sum(sum(dur_ns)) OVER (PARTITION BY trace), 0) AS share_pct,
    CAST(sum(bytes) AS DOUBLE) / nullif(sum(dur_ns) FILTER (WHERE bytes IS NOT NULL), 0) AS rate_gb_per_s
FROM copies
WHERE dur_ns IS NOT NULL
GROUP BY trace, direction, name
ORDER BY trace, total_ms DESC, direction, name
