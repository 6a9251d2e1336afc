-- @metric   requests_per_s
-- @version  1
-- @area     inference
-- @summary  Answered requests per second of a benchmark of inference: requests / duration.
-- @grain    trace
-- @profilers bench
-- @alias    request_throughput requestThroughput-group_12
-- @requires benchmarks
-- @reads    _bench_rates
-- @value    requests_per_s
-- @null     no record says both a count and a duration, or a rate
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   requests_per_s DOUBLE value requests_per_s higher | Sum of the answered requests / sum
--           of the durations of the records.
-- @column   completed_count BIGINT value count | Answered requests; NULL with method recorded.
-- @column   duration_s DOUBLE value s | Their duration; NULL with method recorded.
-- @column   record_count BIGINT value count | Records that it rests on.
-- @column   method VARCHAR value - | totals (sums over the records, divided), or recorded (mean of
--           the rates that the records have, where none has count and duration).
-- @warn     record_count > 1
--           | {record_count} records count as one run after the other: a sweep over request rates
--           gives the mean over its time, and runs that overlapped give too little
-- @source   metrics 2.B request_throughput
SELECT
    trace, per_s AS requests_per_s, total AS completed_count, duration_s, record_count, method
FROM _bench_rates
WHERE counted = 'requests'
ORDER BY trace
