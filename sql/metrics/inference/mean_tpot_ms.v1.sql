-- @metric   mean_tpot_ms
-- @version  1
-- @area     inference
-- @summary  Mean time per output token after the first, of benchmarks alone.
-- @grain    trace
-- @profilers bench
-- @alias    TPOT-group_12
-- @reads    _token_times
-- @value    mean_tpot_ms
-- @null     the record has a median alone
-- @check    EXISTS (SELECT 1 FROM _token_times WHERE measure = 'tpot' AND method <> 'engine_steps')
--           | the trace has no record of a benchmark with a request of two tokens or more
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   mean_tpot_ms DOUBLE value ms lower | Mean over the requests with two tokens or more;
--           else of the means that the records have.
-- @column   method VARCHAR value - | requests (each request that the benchmark recorded), else
--           summary (the figure that it wrote).
-- @column   requests BIGINT value count | Requests that it rests on; NULL where nothing says how
--           many.
-- @column   record_count BIGINT value count | Records that it rests on.
-- @warn     record_count > 1
--           | requests of {record_count} records are pooled, and means of summaries weigh the
--           answered requests of each: not the plain mean over files
-- @source   metrics 2.B tpot_s: mean_tpot_ms of results_json
SELECT trace, mean_ms AS mean_tpot_ms, method, requests, record_count
FROM _token_times
WHERE measure = 'tpot'
ORDER BY trace
