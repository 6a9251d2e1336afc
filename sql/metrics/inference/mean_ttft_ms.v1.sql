-- @metric   mean_ttft_ms
-- @version  1
-- @area     inference
-- @summary  Mean time from sending a request to its first token, of benchmarks alone.
-- @grain    trace
-- @profilers bench
-- @alias    TTFT-group_12
-- @reads    _token_times
-- @value    mean_ttft_ms
-- @null     the record has a median alone
-- @check    EXISTS (SELECT 1 FROM _token_times WHERE measure = 'ttft' AND method <> 'engine_steps')
--           | the trace has no record of a benchmark with the time to the first token
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   mean_ttft_ms DOUBLE value ms lower | Mean over the requests; else of the means that the
--           records have.
-- @column   method VARCHAR value - | requests (each request that the benchmark recorded), else
--           summary (the figure that it wrote).
-- @column   requests BIGINT value count | Requests that it rests on; NULL where nothing says how
--           many.
-- @column   record_count BIGINT value count | Records that it rests on.
-- @warn     record_count > 1
--           | requests of {record_count} records are pooled, and means of summaries weigh the
--           answered requests of each: not the plain mean over files
-- @source   metrics 2.B ttft_s: mean_ttft_ms of results_json
SELECT trace, mean_ms AS mean_ttft_ms, method, requests, record_count
FROM _token_times
WHERE measure = 'ttft'
ORDER BY trace
