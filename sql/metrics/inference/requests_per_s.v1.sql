-- @metric   requests_per_s
-- @version  1
-- @area     inference
-- @summary  Answered requests per second of a benchmark of inference: requests / duration.
-- @grain    trace
-- @profilers bench
-- @alias    request_throughput requestThroughput-group_12
-- @requires benchmarks
-- @value    requests_per_s
-- @null     no record says both a count and a duration, or a rate
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   requests_per_s DOUBLE value requests_per_s higher | Sum of the answered requests / sum of the durations of the records.
-- @column   completed_count BIGINT value count | Answered requests; NULL with method recorded.
-- @column   duration_s DOUBLE value s | Their duration; NULL with method recorded.
-- @column   record_count BIGINT value count | Records that it rests on.
-- @column   method VARCHAR value - | totals (sums over the records, divided), or recorded (mean of the rates that the records have, where none has count and duration).
-- @caveat   Records of several runs count as one run after the other: a sweep over request rates gives the mean over its time, and runs that overlapped give too little.
-- @source   metrics 2.B request_throughput
WITH
    totals AS (
        SELECT
            trace,
            TRY_CAST(sum(completed) AS BIGINT) AS completed_count,
            TRY_CAST(sum(duration_ns) AS BIGINT) AS duration_ns,
            count(*) AS record_count
        FROM benchmarks
        WHERE completed IS NOT NULL AND duration_ns > 0
        GROUP BY trace
    ),

    recorded AS (
        SELECT
            trace,
            avg(request_throughput ORDER BY source_id, record) AS per_s,
            count(*) AS record_count
        FROM benchmarks
        WHERE request_throughput IS NOT NULL
        GROUP BY trace
    ),

    traces_measured AS (
        SELECT trace
        FROM totals
        UNION
        SELECT trace
        FROM recorded
    ),

    final AS (
        SELECT
            m.trace,
            CASE WHEN t.trace IS NOT NULL
                THEN t.completed_count / (t.duration_ns / 1e9)
                ELSE r.per_s
            END AS requests_per_s,
            t.completed_count,
            t.duration_ns / 1e9 AS duration_s,
            coalesce(t.record_count, r.record_count) AS record_count,
            CASE WHEN t.trace IS NOT NULL THEN 'totals' ELSE 'recorded' END AS method
        FROM traces_measured AS m
        LEFT JOIN totals AS t ON t.trace = m.trace
        LEFT JOIN recorded AS r ON r.trace = m.trace
    )

SELECT trace, requests_per_s, completed_count, duration_s, record_count, method
FROM final
ORDER BY trace
