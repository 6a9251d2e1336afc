-- @metric   throughput
-- @version  1
-- @area     speed
-- @summary  Tokens per second as measured: tokens of a step (batch size x sequence length, of the
--           card or as given) over the mean step time; by rank too.
-- @grain    trace
-- @reads    ranks steps _workload _rank_step_times _mean_step_times _device_counts
-- @value    throughput_tokens_per_s
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
-- @column   throughput_tokens_per_s DOUBLE value tokens_per_s higher | Tokens of a step / mean step
--           time (that of avg_step_time).
-- @column   tokens_per_step BIGINT value tokens | batch_size x seq_len: the tokens of the whole
--           job.
-- @column   iteration_time_s DOUBLE value s lower | Mean step time of a rank, mean over ranks.
-- @column   min_iteration_time_s DOUBLE value s | Mean step time of the fastest rank.
-- @column   max_iteration_time_s DOUBLE value s | Mean step time of the slowest rank.
-- @column   device_tokens_per_s DOUBLE value tokens_per_s higher | Tokens per second of one device:
--           over the devices of the card, else the ranks of the job.
-- @column   per_rank_throughput MAP value tokens_per_s | Tokens of the job's step / mean step time
--           of the rank: the pace of the rank, not its share; they do not add up.
-- @column   per_rank_iteration_time_s MAP value s | Mean step time of each rank.
-- @column   num_ranks BIGINT value count | Ranks with steps.
-- @source   metrics 2.B throughput_tokens_per_s and per_rank_throughput (defects D13, D14: no
--           default for a missing field; a step and not the whole profile)
WITH
    workload AS (
        SELECT
            s.trace,
            coalesce($batch_size, c.batch_size) AS batch_size,
            coalesce($seq_len, c.seq_len) AS seq_len,
            c.total_count AS devices
        FROM _mean_step_times AS s
        LEFT JOIN _workload AS c ON c.trace = s.trace
    ),

    tokens AS (
        SELECT trace, CAST(batch_size AS HUGEINT) * seq_len AS step_tokens, devices
        FROM workload
        WHERE batch_size > 0 AND seq_len > 0
    ),

    jobs AS (
        SELECT trace, coalesce(max(world_size), count(DISTINCT rank)) AS job_ranks
        FROM ranks
        GROUP BY trace
    ),

    paces AS (
        SELECT p.trace, p.rank, p.mean_s, w.step_tokens / nullif(p.mean_s, 0) AS tokens_per_s
        FROM _rank_step_times AS p
        INNER JOIN tokens AS w ON w.trace = p.trace
    ),

    totals AS (
        SELECT
            trace,
            min(mean_s) AS min_s,
            max(mean_s) AS max_s,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(tokens_per_s ORDER BY rank))
                AS per_rank_throughput,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(mean_s ORDER BY rank))
                AS per_rank_iteration_time_s,
            count(*) AS num_ranks
        FROM paces
        GROUP BY trace
    )

SELECT
    t.trace,
    w.step_tokens / nullif(m.step_s, 0) AS throughput_tokens_per_s,
    TRY_CAST(w.step_tokens AS BIGINT) AS tokens_per_step,
    m.step_s AS iteration_time_s,
    t.min_s AS min_iteration_time_s,
    t.max_s AS max_iteration_time_s,
    w.step_tokens / nullif(m.step_s, 0) / coalesce(w.devices, j.job_ranks) AS device_tokens_per_s,
    t.per_rank_throughput,
    t.per_rank_iteration_time_s,
    t.num_ranks
FROM totals AS t
INNER JOIN _mean_step_times AS m ON m.trace = t.trace
INNER JOIN tokens AS w ON w.trace = t.trace
INNER JOIN jobs AS j ON j.trace = t.trace
ORDER BY t.trace
