-- @view     _bench_rates
-- @summary  What the records of inference benchmarks count per second: answered requests, and
--           output tokens. Sums over the records, divided (method totals); where no record has both
--           a count and a duration, the mean of the rates that they state (method recorded).
-- @requires benchmarks requests
-- @caveat   Output tokens are those that a record states, else the sum over its answered requests.
WITH
    request_tokens AS (
        SELECT trace, source_id, record, sum(output_tokens) AS output_tokens
        FROM requests
        WHERE status IS DISTINCT FROM 'failed'
        GROUP BY trace, source_id, record
    ),

    records AS (
        SELECT
            trace, source_id, record, 'requests' AS counted, duration_ns, completed AS total,
            request_throughput AS per_s
        FROM benchmarks
        UNION ALL
        SELECT
            b.trace, b.source_id, b.record, 'output_tokens', b.duration_ns,
            coalesce(b.total_output_tokens, r.output_tokens), b.output_throughput
        FROM benchmarks AS b
        LEFT JOIN request_tokens AS r
            ON r.trace = b.trace AND r.source_id = b.source_id AND r.record = b.record
    ),

    totals AS (
        SELECT
            trace, counted,
            TRY_CAST(sum(total) AS BIGINT) AS total,
            TRY_CAST(sum(duration_ns) AS BIGINT) AS duration_ns,
            count(*) AS record_count
        FROM records
        WHERE total IS NOT NULL AND duration_ns > 0
        GROUP BY trace, counted
    ),

    recorded AS (
        SELECT
            trace, counted, avg(per_s ORDER BY source_id, record) AS per_s, count(*) AS record_count
        FROM records
        WHERE per_s IS NOT NULL
        GROUP BY trace, counted
    )

SELECT
    trace, counted, total / (duration_ns / 1e9) AS per_s, total, duration_ns / 1e9 AS duration_s,
    record_count, 'totals' AS method
FROM totals
UNION ALL
SELECT
    r.trace, r.counted, r.per_s, CAST(NULL AS BIGINT), CAST(NULL AS DOUBLE), r.record_count, 'recorded'
FROM recorded AS r
WHERE NOT EXISTS (
    SELECT 1
    FROM totals AS t
    WHERE t.trace = r.trace AND t.counted = r.counted
)
