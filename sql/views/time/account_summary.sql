-- @view     account_summary
-- @summary  Where a step goes: parts that sum to it, mean over the steps that count, then over
--           ranks; of the whole trace where there are no steps.
-- @requires _rank_account
-- @null     no rank with steps has a device
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   part VARCHAR dim - | Part, as in step_account.
-- @column   per VARCHAR value - | step, or trace.
-- @column   step_ms DOUBLE value ms lower | Time of a step.
-- @column   time_ms DOUBLE value ms lower | Time of the part; all parts sum to the step.
-- @column   share_pct DOUBLE value pct | Share of the step.
-- @column   hidden_ms DOUBLE value ms | Time of the same kind that something hides.
-- @column   max_rank BIGINT value - | The rank with most of it, the lowest of equals; NULL of a
--           single rank.
-- @column   max_ms DOUBLE value ms lower | Time of that rank.
-- @column   cause_rank BIGINT value - | Of wait, the rank to which most of it goes back.
-- @column   cause_ms DOUBLE value ms lower | How much of it does, mean over the ranks.
-- @column   num_ranks BIGINT value count | Ranks.
-- @source   step_account
WITH
    accounts AS MATERIALIZED (
        SELECT trace, rank, per, step_ms, part, for_rank, cause_rank, time_ms, hidden_ms
        FROM _rank_account
    ),

    ranks AS (
        SELECT DISTINCT trace, rank, per, step_ms
        FROM accounts
    ),

    totals AS (
        SELECT
            trace, per, CAST(count(*) AS BIGINT) AS num_ranks, avg(step_ms ORDER BY rank) AS step_ms
        FROM ranks
        GROUP BY trace, per
    ),

    rank_parts AS (
        SELECT
            trace, rank, part, sum(time_ms ORDER BY for_rank) AS time_ms,
            sum(hidden_ms ORDER BY for_rank) AS hidden_ms
        FROM accounts
        GROUP BY trace, rank, part
    ),

    parts AS (
        SELECT
            trace, part, sum(time_ms ORDER BY rank) AS sum_ms, sum(hidden_ms ORDER BY rank) AS hidden_ms,
            (array_agg({rank: rank, time_ms: time_ms} ORDER BY time_ms DESC, rank))[1] AS most
        FROM rank_parts
        GROUP BY trace, part
    ),

    causes AS (
        SELECT trace, cause_rank, sum(time_ms ORDER BY rank, for_rank) AS sum_ms
        FROM accounts
        WHERE cause_rank IS NOT NULL
        GROUP BY trace, cause_rank
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY sum(time_ms ORDER BY rank, for_rank) DESC, cause_rank
        ) = 1
    )

SELECT
    t.trace, p.part, t.per, t.step_ms, p.sum_ms / t.num_ranks AS time_ms,
    100 * p.sum_ms / t.num_ranks / t.step_ms AS share_pct,
    p.hidden_ms / t.num_ranks AS hidden_ms,
    CASE WHEN t.num_ranks > 1 THEN p.most.rank END AS max_rank,
    CASE WHEN t.num_ranks > 1 THEN p.most.time_ms END AS max_ms,
    c.cause_rank, c.sum_ms / t.num_ranks AS cause_ms, t.num_ranks
FROM totals AS t
INNER JOIN parts AS p ON p.trace = t.trace
LEFT JOIN causes AS c ON c.trace = t.trace AND p.part = 'wait'
ORDER BY t.trace, time_ms DESC, p.part
