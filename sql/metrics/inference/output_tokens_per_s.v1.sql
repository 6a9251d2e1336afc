-- @metric   output_tokens_per_s
-- @version  1
-- @area     inference
-- @summary  Output tokens per second of a benchmark of inference: output tokens / duration.
-- @grain    trace
-- @profilers bench
-- @alias    output_throughput throughput_group_6 outputThroughput-group_12
-- @requires benchmarks
-- @reads    _bench_rates
-- @value    output_tokens_per_s
-- @null     no record says both a count and a duration, or a rate
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   output_tokens_per_s DOUBLE value tokens_per_s higher | Sum of the output tokens / sum
--           of the durations of the records.
-- @column   total_output_tokens BIGINT value tokens | Output tokens: as the records say, else
--           summed over their requests; NULL with method recorded.
-- @column   duration_s DOUBLE value s | Their duration; NULL with method recorded.
-- @column   record_count BIGINT value count | Records that it rests on.
-- @column   method VARCHAR value - | totals (sums over the records, divided), or recorded (mean of
--           the rates that the records have, where none has count and duration).
-- @warn     record_count > 1
--           | {record_count} records count as one run after the other: a sweep over request rates
--           gives the mean over its time, and runs that overlapped give too little
-- @source   metrics 2.B output_throughput (defect D18)
SELECT
    trace, per_s AS output_tokens_per_s, total AS total_output_tokens, duration_s, record_count, method
FROM _bench_rates
WHERE counted = 'output_tokens'
ORDER BY trace
