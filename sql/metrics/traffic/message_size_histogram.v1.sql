-- @metric   message_size_histogram
-- @version  1
-- @area     traffic
-- @summary  How large the messages of the communication calls are: calls, bytes and time by kind
--           and power of two.
-- @grain    trace
-- @requires collectives
-- @reads    _comm_calls
-- @value    median_message_bytes
-- @coverage size_coverage_ratio | message sizes are
-- @null     no call has a known size
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   median_message_bytes DOUBLE value bytes | Median message size over the calls,
--           interpolated; a call counts once over its ranks where it is matched, with the largest
--           message of a rank.
-- @column   mean_message_bytes DOUBLE value bytes | Mean.
-- @column   max_message_bytes BIGINT value bytes | Largest.
-- @column   half_volume_bytes BIGINT value bytes | Messages of this size and larger carry half of
--           all bytes.
-- @column   calls BIGINT value calls | Calls, barriers left out.
-- @column   calls_with_size BIGINT value calls | Those whose size is known.
-- @column   size_coverage_ratio DOUBLE value ratio | calls_with_size / calls.
-- @column   histogram LIST value - | By collective and size: size_bytes (the power of two at or
--           below the message, 0 for empty ones), calls, message_bytes, time_us (sum of the
--           shortest durations), calls_ratio, bytes_ratio and time_ratio of all calls with a size.
-- @source   metrics 1.4 (message size S)
WITH
    calls AS (
        SELECT
            trace, collective, message_bytes, transfer_ns,
            CASE
                WHEN message_bytes > 0 THEN CAST(power(2, least(floor(log2(message_bytes)), 62)) AS BIGINT)
                ELSE 0
            END AS size_bytes
        FROM _comm_calls
        WHERE collective <> 'barrier' AND message_bytes >= 0
    ),

    counts AS (
        SELECT
            trace, count(*) AS calls, count(*) FILTER (WHERE message_bytes >= 0) AS calls_with_size
        FROM _comm_calls
        WHERE collective <> 'barrier'
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace, count(*) AS calls, sum(message_bytes) AS message_bytes, sum(transfer_ns) AS transfer_ns,
            quantile_cont(CAST(message_bytes AS DOUBLE), 0.5) AS median_message_bytes,
            avg(message_bytes) AS mean_message_bytes,
            max(message_bytes) AS max_message_bytes
        FROM calls
        GROUP BY trace
    ),

    descending AS (
        SELECT
            trace, message_bytes,
            sum(message_bytes) OVER (
                PARTITION BY trace ORDER BY message_bytes DESC
                RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS bytes_so_far
        FROM calls
    ),

    halves AS (
        SELECT d.trace, max(d.message_bytes) AS half_volume_bytes
        FROM descending AS d
        INNER JOIN totals AS t ON t.trace = d.trace
        WHERE 2 * d.bytes_so_far >= t.message_bytes AND d.message_bytes > 0
        GROUP BY d.trace
    ),

    buckets AS (
        SELECT
            c.trace, c.collective, c.size_bytes, count(*) AS calls,
            TRY_CAST(sum(c.message_bytes) AS BIGINT) AS message_bytes,
            sum(c.transfer_ns) / 1e3 AS time_us,
            CAST(count(*) AS DOUBLE) / max(t.calls) AS calls_ratio,
            CAST(sum(c.message_bytes) AS DOUBLE) / nullif(max(t.message_bytes), 0) AS bytes_ratio,
            CAST(sum(c.transfer_ns) AS DOUBLE) / nullif(max(t.transfer_ns), 0) AS time_ratio
        FROM calls AS c
        INNER JOIN totals AS t ON t.trace = c.trace
        GROUP BY c.trace, c.collective, c.size_bytes
    ),

    histograms AS (
        SELECT
            trace,
            array_agg({
                collective: collective, size_bytes: size_bytes, calls: calls, message_bytes: message_bytes,
                time_us: time_us, calls_ratio: calls_ratio, bytes_ratio: bytes_ratio, time_ratio: time_ratio
            } ORDER BY collective, size_bytes) AS histogram
        FROM buckets
        GROUP BY trace
    )

SELECT
    c.trace, t.median_message_bytes, t.mean_message_bytes, t.max_message_bytes,
    v.half_volume_bytes, c.calls, c.calls_with_size,
    CAST(c.calls_with_size AS DOUBLE) / c.calls AS size_coverage_ratio, h.histogram
FROM counts AS c
LEFT JOIN totals AS t ON t.trace = c.trace
LEFT JOIN histograms AS h ON h.trace = c.trace
LEFT JOIN halves AS v ON v.trace = c.trace
ORDER BY c.trace
