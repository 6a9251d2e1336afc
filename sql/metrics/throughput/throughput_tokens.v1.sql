-- @metric   throughput_tokens
-- @version  1
-- @area     throughput
-- @summary  Tokens per second: global batch size x sequence length of the card over the mean step time.
-- @grain    trace
-- @requires cards steps
-- @reads    _mean_step_times
-- @value    throughput_tokens_per_s
-- @alias    throughput_tokens_sec tokens_per_second throughput_tokens_per_s
-- @check    (SELECT max(batch_size) FROM cards) > 0 | the workload card has no batch_size
-- @check    (SELECT max(seq_len) FROM cards) > 0 | the workload card has no seq_len
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   throughput_tokens_per_s DOUBLE value tokens_per_s higher | batch_size x seq_len / mean step time (that of avg_step_time).
-- @column   total_tokens BIGINT value tokens | Tokens of the kept steps.
-- @column   measured_duration_s DOUBLE value s | Mean step time x kept steps.
-- @column   num_iterations BIGINT value count | Kept steps of the rank with most.
-- @column   batch_size BIGINT value - | Global batch size of the card.
-- @column   seq_len BIGINT value - | Sequence length of the card.
-- @source   metrics 2.B throughput_tokens_per_s (defects D12 to D14: steps of the trace, no default for a missing field)
WITH
    workload AS (
        SELECT trace, max(batch_size) AS batch_size, max(seq_len) AS seq_len
        FROM cards
        GROUP BY trace
    ),

    final AS (
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
    )

SELECT
    trace, throughput_tokens_per_s, total_tokens, measured_duration_s, num_iterations, batch_size,
    seq_len
FROM final
ORDER BY trace
