-- @metric   throughput_tokens
-- @version  1
-- @area     speed
-- @summary  Tokens per second: global batch size x sequence length, of the card or as given, over
--           the mean step time.
-- @grain    trace
-- @reads    steps _workload _mean_step_times _device_counts
-- @value    throughput_tokens_per_s
-- @alias    throughput_tokens_sec tokens_per_second throughput_tokens_per_s
-- @check    (SELECT count(*) FROM steps) > 0 OR (SELECT count(*) FROM _device_counts WHERE
--           flops_events > 0) = 0
--           | the trace has no steps: estimated_throughput_tokens_per_s says how many tokens per
--           second its stated operations are enough for (that is what --model_params is for)
-- @check    (SELECT count(*) FROM steps) > 0 | it needs steps, and this trace has none
-- @check    (SELECT count(*) FROM _mean_step_times WHERE step_s > 0) > 0 | the steps take no time
-- @null     the batch size or the sequence length is not known: a workload card states them, else
--           -p batch_size=N -p seq_len=N give them
-- @param    batch_size BIGINT NULL | Samples of a step of the whole job; that of the card where it
--           is not given.
-- @param    seq_len BIGINT NULL | Tokens of a sample; that of the card where it is not given.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   throughput_tokens_per_s DOUBLE value tokens_per_s higher | batch_size x seq_len / mean
--           step time (that of avg_step_time).
-- @column   total_tokens BIGINT value tokens | Tokens of the kept steps.
-- @column   measured_duration_s DOUBLE value s | Mean step time x kept steps.
-- @column   num_iterations BIGINT value count | Kept steps of the rank with most.
-- @column   batch_size BIGINT value - | Global batch size: that given, else that of the card.
-- @column   seq_len BIGINT value - | Sequence length, likewise.
-- @source   metrics 2.B throughput_tokens_per_s (defects D12 to D14: steps of the trace, no default
--           for a missing field)
WITH
    workload AS (
        SELECT
            s.trace,
            coalesce($batch_size, c.batch_size) AS batch_size,
            coalesce($seq_len, c.seq_len) AS seq_len
        FROM _mean_step_times AS s
        LEFT JOIN _workload AS c ON c.trace = s.trace
    )

SELECT
    t.trace,
    CAST(w.batch_size AS HUGEINT) * w.seq_len / nullif(t.step_s, 0) AS throughput_tokens_per_s,
    TRY_CAST(CAST(w.batch_size AS DOUBLE) * w.seq_len * t.step_count AS BIGINT) AS total_tokens,
    t.step_s * t.step_count AS measured_duration_s,
    t.step_count AS num_iterations,
    w.batch_size,
    w.seq_len
FROM _mean_step_times AS t
INNER JOIN workload AS w ON w.trace = t.trace
WHERE w.batch_size > 0 AND w.seq_len > 0
ORDER BY t.trace
