-- @metric   ttft
-- @version  1
-- @area     inference
-- @summary  Time from sending a request to its first token, mean over the requests.
-- @grain    trace
-- @profilers kineto nsys xla bench
-- @alias    ttft_s ttft_group_4 TTFT
-- @reads    _token_times
-- @value    mean_s
-- @null     the record has a median alone
-- @check    EXISTS (SELECT 1 FROM _token_times WHERE measure = 'ttft')
--           | the trace has no record of a benchmark with the time to the first token, and no
--           engine step that reads a prompt
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   mean_s DOUBLE value s lower | Mean time to the first token over the requests; with
--           method engine_steps the first step of a rank that reads a prompt, mean over ranks.
-- @column   p50_s DOUBLE value s lower | Median, interpolated; NULL where several records have no
--           details of requests.
-- @column   p95_s DOUBLE value s lower | 95th percentile, interpolated; NULL without details of
--           requests or steps.
-- @column   p99_s DOUBLE value s lower | 99th percentile, like the median.
-- @column   method VARCHAR value - | requests (each request that the benchmark recorded), summary
--           (the figures that it wrote), or engine_steps (the trace itself), in this order of
--           trust.
-- @column   requests BIGINT value count | Requests that the figures rest on; NULL where nothing
--           says how many.
-- @column   record_count BIGINT value count | Records that they rest on; NULL for engine steps.
-- @column   step_count BIGINT value count | Engine steps that they rest on; NULL for benchmarks.
-- @warn     method = 'engine_steps'
--           | it is of engine steps and no latency of a request: waiting in the queue, further
--           chunks of the prompt and all work between the steps are missing
-- @warn     record_count > 1
--           | requests of {record_count} records are pooled; means of summaries weigh the answered
--           requests of each
-- @caveat   Ranges that --step-range chooses are steps of an engine where their names say prefill,
--           extend or decode.
-- @source   metrics 2.B ttft_s (defect D17)
SELECT
    trace, mean_ms / 1e3 AS mean_s, p50_ms / 1e3 AS p50_s, p95_ms / 1e3 AS p95_s,
    p99_ms / 1e3 AS p99_s,
    method, requests, record_count, step_count
FROM _token_times
WHERE measure = 'ttft'
ORDER BY trace
