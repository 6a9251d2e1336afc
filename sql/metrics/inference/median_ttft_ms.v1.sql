-- @metric   median_ttft_ms
-- @version  1
-- @area     inference
-- @summary  Median time from sending a request to its first token.
-- @grain    trace
-- @profilers bench
-- @alias    ttft_group_6
-- @reads    _token_times
-- @value    median_ttft_ms
-- @null     the records of several runs have no details of requests: their medians cannot be joined
-- @check    EXISTS (SELECT 1 FROM _token_times WHERE measure = 'ttft' AND method <> 'engine_steps')
--           | the trace has no record of a benchmark with the time to the first token
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   median_ttft_ms DOUBLE value ms lower | Median over the requests, interpolated; else
--           that of the only record.
-- @column   method VARCHAR value - | requests (each request that the benchmark recorded), else
--           summary (the figure that it wrote).
-- @column   requests BIGINT value count | Requests that it rests on; NULL where nothing says how
--           many.
-- @column   record_count BIGINT value count | Records that it rests on.
-- @source   metrics 2.B ttft_s: median_ttft_ms of bench_results.jsonl
SELECT trace, p50_ms AS median_ttft_ms, method, requests, record_count
FROM _token_times
WHERE measure = 'ttft'
ORDER BY trace
