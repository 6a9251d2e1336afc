-- @metric   median_tpot_ms
-- @version  1
-- @area     inference
-- @summary  Median time per output token after the first.
-- @grain    trace
-- @profilers bench
-- @alias    tpot_group_6
-- @reads    _token_times
-- @value    median_tpot_ms
-- @null     the records of several runs have no details of requests: their medians cannot be joined
-- @check    EXISTS (SELECT 1 FROM _token_times WHERE measure = 'tpot' AND method <> 'engine_steps')
--           | the trace has no record of a benchmark with a request of two tokens or more
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   median_tpot_ms DOUBLE value ms lower | Median over the requests with two tokens or
--           more, interpolated; else that of the only record.
-- @column   method VARCHAR value - | requests (each request that the benchmark recorded), else
--           summary (the figure that it wrote).
-- @column   requests BIGINT value count | Requests that it rests on; NULL where nothing says how
--           many.
-- @column   record_count BIGINT value count | Records that it rests on.
-- @source   metrics 2.B tpot_s: median_tpot_ms of bench_results.jsonl
SELECT trace, p50_ms AS median_tpot_ms, method, requests, record_count
FROM _token_times
WHERE measure = 'tpot'
ORDER BY trace
