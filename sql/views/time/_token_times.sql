-- @view     _token_times
-- @summary  Time to the first token and time per output token of a trace: of its benchmarks'
--           requests, else of their summaries, else of the steps of its engine.
-- @materialize session
-- @reads    _request_times benchmarks _engine_steps
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   measure VARCHAR dim - | ttft or tpot.
-- @column   method VARCHAR value - | requests, summary or engine_steps.
-- @column   mean_ms DOUBLE value ms | Mean.
-- @column   p50_ms DOUBLE value ms | Median, interpolated.
-- @column   p95_ms DOUBLE value ms | 95th percentile, interpolated.
-- @column   p99_ms DOUBLE value ms | 99th percentile, interpolated.
-- @column   requests BIGINT value count | Requests that it rests on; NULL where nothing says how
--           many.
-- @column   record_count BIGINT value count | Records of benchmarks that it rests on; NULL for
--           steps.
-- @column   step_count BIGINT value count | Steps of the engine that it rests on; NULL for
--           benchmarks.
-- @caveat   vLLM and SGLang write 0 where nothing was measured (no streaming, no request with two
--           tokens): such summaries do not count.
WITH
    request_values AS (
        SELECT trace, source_id, record, request, 'ttft' AS measure, ttft_ns AS ns
        FROM _request_times
        UNION ALL
        SELECT trace, source_id, record, request, 'tpot' AS measure, tpot_ns AS ns
        FROM _request_times
    ),

    of_requests AS (
        SELECT
            trace, measure, 'requests' AS method,
            avg(ns ORDER BY source_id, record, request) / 1e6 AS mean_ms,
            quantile_cont(ns, 0.5) / 1e6 AS p50_ms,
            quantile_cont(ns, 0.95) / 1e6 AS p95_ms,
            quantile_cont(ns, 0.99) / 1e6 AS p99_ms,
            count(*) AS requests,
            count(DISTINCT {source_id: source_id, record: record}) AS record_count,
            CAST(NULL AS BIGINT) AS step_count
        FROM request_values
        WHERE ns IS NOT NULL
        GROUP BY trace, measure
    ),

    summary_values AS (
        SELECT
            trace, source_id, record, completed, 'ttft' AS measure,
            mean_ttft_ms AS mean_ms, median_ttft_ms AS p50_ms, p99_ttft_ms AS p99_ms
        FROM benchmarks
        UNION ALL
        SELECT
            trace, source_id, record, completed, 'tpot' AS measure,
            mean_tpot_ms AS mean_ms, median_tpot_ms AS p50_ms, p99_tpot_ms AS p99_ms
        FROM benchmarks
    ),

    of_summaries AS (
        SELECT
            trace, measure, 'summary' AS method,
            -- Records of several runs weigh as many requests as they had.
            CASE WHEN count(completed) = count(*)
                THEN sum(mean_ms * completed ORDER BY source_id, record)
                    / sum(completed) FILTER (WHERE mean_ms IS NOT NULL)
                ELSE avg(mean_ms ORDER BY source_id, record)
            END AS mean_ms,
            -- Percentiles of several runs cannot be joined.
            CASE WHEN count(*) = 1 THEN max(p50_ms) END AS p50_ms,
            CAST(NULL AS DOUBLE) AS p95_ms,
            CASE WHEN count(*) = 1 THEN max(p99_ms) END AS p99_ms,
            -- A record with a median alone is in no mean of others.
            CASE WHEN count(completed) = count(*)
                THEN TRY_CAST(
                    coalesce(sum(completed) FILTER (WHERE mean_ms IS NOT NULL), sum(completed)) AS BIGINT
                )
            END AS requests,
            coalesce(nullif(count(mean_ms), 0), count(*)) AS record_count,
            CAST(NULL AS BIGINT) AS step_count
        FROM summary_values
        WHERE (mean_ms > 0 OR mean_ms IS NULL AND p50_ms > 0) AND coalesce(completed, 1) > 0
        GROUP BY trace, measure
    ),

    -- A marker that does not say what a step is for: the first reads the prompt, the last may be
    -- cut.
    placed_steps AS (
        SELECT
            trace, rank, ts_ns, dur_ns, purpose,
            row_number() OVER (PARTITION BY trace, rank ORDER BY ts_ns, dur_ns) AS step,
            count(*) OVER (PARTITION BY trace, rank) AS step_count
        FROM _engine_steps
    ),

    measured_steps AS (
        SELECT
            trace, rank, ts_ns, dur_ns,
            CASE
                WHEN purpose = 'prefill' THEN 'ttft'
                WHEN purpose = 'decode' THEN 'tpot'
                WHEN purpose IS NULL AND step = 1 THEN 'ttft'
                WHEN purpose IS NULL AND (step_count <= 3 OR step < step_count) THEN 'tpot'
            END AS measure
        FROM placed_steps
    ),

    step_values AS (
        SELECT trace, rank, ts_ns, dur_ns, measure
        FROM measured_steps
        WHERE measure IS NOT NULL
        QUALIFY measure = 'tpot' OR row_number() OVER (
            PARTITION BY trace, rank, measure ORDER BY ts_ns, dur_ns
        ) = 1
    ),

    rank_steps AS (
        SELECT trace, measure, rank, avg(dur_ns) AS mean_ns
        FROM step_values
        GROUP BY trace, measure, rank
    ),

    rank_means AS (
        SELECT trace, measure, avg(mean_ns ORDER BY rank) AS mean_ns
        FROM rank_steps
        GROUP BY trace, measure
    ),

    step_quantiles AS (
        SELECT
            trace, measure,
            quantile_cont(dur_ns, 0.5) AS p50_ns,
            quantile_cont(dur_ns, 0.95) AS p95_ns,
            quantile_cont(dur_ns, 0.99) AS p99_ns,
            count(*) AS step_count
        FROM step_values
        GROUP BY trace, measure
    ),

    of_steps AS (
        SELECT
            m.trace, m.measure, 'engine_steps' AS method,
            m.mean_ns / 1e6 AS mean_ms, q.p50_ns / 1e6 AS p50_ms, q.p95_ns / 1e6 AS p95_ms,
            q.p99_ns / 1e6 AS p99_ms,
            CAST(NULL AS BIGINT) AS requests, CAST(NULL AS BIGINT) AS record_count, q.step_count
        FROM rank_means AS m
        INNER JOIN step_quantiles AS q ON q.trace = m.trace AND q.measure = m.measure
    ),

    candidates AS (
        SELECT
            trace, measure, method, mean_ms, p50_ms, p95_ms, p99_ms, requests, record_count, step_count
        FROM of_requests
        UNION ALL
        SELECT
            trace, measure, method, mean_ms, p50_ms, p95_ms, p99_ms, requests, record_count, step_count
        FROM of_summaries
        UNION ALL
        SELECT
            trace, measure, method, mean_ms, p50_ms, p95_ms, p99_ms, requests, record_count, step_count
        FROM of_steps
    )

SELECT trace, measure, method, mean_ms, p50_ms, p95_ms, p99_ms, requests, record_count, step_count
FROM candidates
QUALIFY row_number() OVER (
    PARTITION BY trace, measure
    ORDER BY list_position(['requests', 'summary', 'engine_steps'], method)
) = 1
