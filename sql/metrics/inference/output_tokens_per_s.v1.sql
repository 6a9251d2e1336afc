-- @metric   output_tokens_per_s
-- @version  1
-- @area     inference
-- @summary  Output tokens per second of a benchmark of inference: output tokens / duration.
-- @grain    trace
-- @profilers bench
-- @alias    output_throughput throughput_group_6 outputThroughput-group_12
-- @requires benchmarks
-- @reads    requests
-- @value    output_tokens_per_s
-- @null     no record says both a count and a duration, or a rate
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   output_tokens_per_s DOUBLE value tokens_per_s higher | Sum of the output tokens / sum of the durations of the records.
-- @column   total_output_tokens BIGINT value tokens | Output tokens: as the records say, else summed over their requests; NULL with method recorded.
-- @column   duration_s DOUBLE value s | Their duration; NULL with method recorded.
-- @column   record_count BIGINT value count | Records that it rests on.
-- @column   method VARCHAR value - | totals (sums over the records, divided), or recorded (mean of the rates that the records have, where none has count and duration).
-- @caveat   Records of several runs count as one run after the other: a sweep over request rates gives the mean over its time, and runs that overlapped give too little.
-- @source   metrics 2.B output_throughput (defect D18)
WITH
    request_tokens AS (
        SELECT trace, source_id, record, sum(output_tokens) AS output_tokens
        FROM requests
        WHERE status IS DISTINCT FROM 'failed'
        GROUP BY trace, source_id, record
    ),

    runs AS (
        SELECT
            b.trace, b.duration_ns,
            coalesce(b.total_output_tokens, r.output_tokens) AS output_tokens
        FROM benchmarks AS b
        LEFT JOIN request_tokens AS r
            ON r.trace = b.trace AND r.source_id = b.source_id AND r.record = b.record
    ),

    totals AS (
        SELECT
            trace,
            TRY_CAST(sum(output_tokens) AS BIGINT) AS total_output_tokens,
            TRY_CAST(sum(duration_ns) AS BIGINT) AS duration_ns,
            count(*) AS record_count
        FROM runs
        WHERE output_tokens IS NOT NULL AND duration_ns > 0
        GROUP BY trace
    ),

    recorded AS (
        SELECT
            trace,
            avg(output_throughput ORDER BY source_id, record) AS per_s,
            count(*) AS record_count
        FROM benchmarks
        WHERE output_throughput IS NOT NULL
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
                THEN t.total_output_tokens / (t.duration_ns / 1e9)
                ELSE r.per_s
            END AS output_tokens_per_s,
            t.total_output_tokens,
            t.duration_ns / 1e9 AS duration_s,
            coalesce(t.record_count, r.record_count) AS record_count,
            CASE WHEN t.trace IS NOT NULL THEN 'totals' ELSE 'recorded' END AS method
        FROM traces_measured AS m
        LEFT JOIN totals AS t ON t.trace = m.trace
        LEFT JOIN recorded AS r ON r.trace = m.trace
    )

SELECT trace, output_tokens_per_s, total_output_tokens, duration_s, record_count, method
FROM final
ORDER BY trace
