-- @view     _request_times
-- @summary  Time to the first token and time per output token of each request of a benchmark that
--           did not fail.
-- @requires requests
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   source_id BIGINT dim - | File.
-- @column   record BIGINT dim - | Record in the file.
-- @column   request BIGINT dim - | Request in the record.
-- @column   ttft_ns DOUBLE value ns | Time to the first token.
-- @column   tpot_ns DOUBLE value ns | (last token - first token) / (output tokens - 1); NULL below
--           two tokens, and where the whole answer came in one piece.
-- @source   metrics 2.B ttft_s and tpot_s; vLLM benchmarks/serve.py calculate_metrics
WITH
    answered AS (
        SELECT trace, source_id, record, request, output_tokens, ttft_ns, latency_ns, itl_ns
        FROM requests
        WHERE status IS DISTINCT FROM 'failed'
    )

SELECT
    trace, source_id, record, request,
    CAST(ttft_ns AS DOUBLE) AS ttft_ns,
    CASE
        WHEN output_tokens >= 2 AND latency_ns >= ttft_ns
            AND coalesce(len(itl_ns) > 0, latency_ns > ttft_ns)
            THEN (latency_ns - ttft_ns) / CAST(output_tokens - 1 AS DOUBLE)
    END AS tpot_ns
FROM answered
