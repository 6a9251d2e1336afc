-- @view     time_per_step
-- @summary  What a step of the devices consists of: mean over the steps that count, then over
--           ranks; of the whole trace where there are no steps.
-- @requires _rank_account
-- @null     no rank with steps has a device
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   part VARCHAR dim - | step: all of it. It is the sum of compute; exposed_comm:
--           communication without compute; exposed_other: copies, sets and graphs without both;
--           idle: nothing. Of exposed_comm exposed_transfer and exposed_wait: a matched call
--           transfers for as long as the shortest of its events, at the end of each, and waits
--           before. Beside them comm (hidden or not) and hidden_comm (with compute beside it).
-- @column   per VARCHAR value - | step, or trace.
-- @column   time_ms DOUBLE value ms lower | Time; of a rank with several devices their mean.
-- @column   share_pct DOUBLE value pct | Share of the step; of hidden_comm, of comm.
-- @column   window_count BIGINT value count | Steps of the rank that has most of them.
-- @column   num_ranks BIGINT value count | Ranks.
-- @column   split_pct DOUBLE value pct | Of exposed_comm, the share that exposed_transfer and
--           exposed_wait are; the rest are calls that are not matched over the ranks. Where none is
--           matched, both are NULL.
-- @caveat   Steps are those of avg_step_time, by the host: what the host launched before the end of
--           a step and the device runs later is in the next one.
-- @source   metrics 2.A (steps from start to start; of more than two neither the first nor the
--           last) and 2.E (unions per rank and device)
WITH
    rank_means AS (
        SELECT
            trace, rank, per, any_value(window_count) AS window_count, any_value(step_ms) AS step_ms,
            coalesce(sum(time_ms) FILTER (WHERE part = 'compute'), 0) AS compute_ms,
            coalesce(sum(time_ms) FILTER (WHERE part = 'transfer'), 0) AS transfer_ms,
            coalesce(sum(time_ms ORDER BY for_rank) FILTER (WHERE part = 'wait'), 0) AS wait_ms,
            coalesce(sum(time_ms) FILTER (WHERE part = 'unmatched'), 0) AS unmatched_ms,
            coalesce(sum(time_ms ORDER BY part) FILTER (WHERE part IN ('copy', 'graph')), 0) AS other_ms,
            coalesce(
                sum(time_ms ORDER BY part) FILTER (
                    WHERE part NOT IN
                        ('compute', 'transfer', 'wait', 'unmatched', 'copy', 'graph')
                ), 0
            ) AS idle_ms,
            coalesce(
                sum(hidden_ms ORDER BY part, for_rank)
                    FILTER (WHERE part IN ('transfer', 'wait', 'unmatched')), 0
            ) AS hidden_ms
        FROM _rank_account
        GROUP BY trace, rank, per
    ),

    means AS (
        SELECT
            trace, per,
            max(window_count) AS window_count,
            count(*) AS num_ranks,
            avg(step_ms ORDER BY rank) AS step_ms,
            avg(compute_ms ORDER BY rank) AS compute_ms,
            avg(transfer_ms ORDER BY rank) AS exposed_transfer_ms,
            avg(wait_ms ORDER BY rank) AS exposed_wait_ms,
            avg(transfer_ms + wait_ms + unmatched_ms ORDER BY rank) AS exposed_comm_ms,
            avg(other_ms ORDER BY rank) AS exposed_other_ms,
            avg(idle_ms ORDER BY rank) AS idle_ms,
            avg(hidden_ms ORDER BY rank) AS hidden_comm_ms
        FROM rank_means
        GROUP BY trace, per
    ),

    split AS (
        SELECT
            trace, per, window_count, num_ranks, step_ms, compute_ms, exposed_comm_ms,
            exposed_transfer_ms, exposed_wait_ms, exposed_other_ms, idle_ms, hidden_comm_ms,
            exposed_comm_ms + hidden_comm_ms AS comm_ms,
            100 * (exposed_transfer_ms + exposed_wait_ms) / nullif(exposed_comm_ms, 0) AS split_pct
        FROM means
    ),

    items AS (
        SELECT
            trace, per, window_count, num_ranks, step_ms, comm_ms, split_pct,
            unnest([
                {part: 'step', time_ms: step_ms},
                {part: 'compute', time_ms: compute_ms},
                {part: 'exposed_comm', time_ms: exposed_comm_ms},
                {part: 'exposed_transfer', time_ms: CASE WHEN split_pct > 0 THEN exposed_transfer_ms END},
                {part: 'exposed_wait', time_ms: CASE WHEN split_pct > 0 THEN exposed_wait_ms END},
                {part: 'exposed_other', time_ms: exposed_other_ms},
                {part: 'idle', time_ms: idle_ms},
                {part: 'comm', time_ms: comm_ms},
                {part: 'hidden_comm', time_ms: hidden_comm_ms}
            ]) AS item
        FROM split
    )

SELECT
    trace, item.part AS part, per, item.time_ms AS time_ms,
    100 * item.time_ms / nullif(CASE item.part WHEN 'hidden_comm' THEN comm_ms ELSE step_ms END, 0) AS share_pct,
    window_count, num_ranks,
    CASE WHEN item.part = 'exposed_comm' THEN split_pct END AS split_pct
FROM items
ORDER BY
    trace,
    list_position([
        'step', 'compute', 'exposed_comm', 'exposed_transfer', 'exposed_wait', 'exposed_other',
        'idle', 'comm', 'hidden_comm'
    ], item.part)
