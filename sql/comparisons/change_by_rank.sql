-- @comparison change_by_rank
-- @summary  What the ranks add to the change of the mean step time: rows that sum to it, each with
--           the part of its step that changed most.
-- @requires _rank_account
-- @null     the runs have no device in common terms: one has steps and the other none, or one has
--           no device
-- @param    base VARCHAR NULL | Trace of the baseline.
-- @param    test VARCHAR NULL | Trace that is compared with it.
-- @column   rank BIGINT dim - | Global rank, the same number in both runs.
-- @column   found_in VARCHAR value - | both, baseline or test.
-- @column   per VARCHAR value - | step, or trace.
-- @column   base_ms DOUBLE value ms lower | Mean step time of the rank in the baseline.
-- @column   test_ms DOUBLE value ms lower | The same in the test.
-- @column   change_ms DOUBLE value ms lower | What the rank adds to the mean step time over ranks;
--           all rows sum to its change.
-- @column   part VARCHAR value - | The part of the step that changed most on this rank.
-- @column   part_change_ms DOUBLE value ms lower | By how much it did, in a step of the rank.
-- @caveat   Runs of unlike numbers of ranks: each rank counts by its share of its own run.
-- @source   account_summary of both runs
WITH
    accounts AS MATERIALIZED (
        SELECT trace, rank, per, step_ms, part, time_ms
        FROM _rank_account
        WHERE trace IN ($base, $test)
    ),

    ranks AS (
        SELECT
            trace, rank, per, any_value(step_ms) AS step_ms,
            count(*) OVER (PARTITION BY trace) AS rank_count
        FROM accounts
        GROUP BY trace, rank, per
    ),

    parts AS (
        SELECT
            rank, part,
            coalesce(sum(time_ms) FILTER (WHERE trace = $test), 0)
                - coalesce(sum(time_ms) FILTER (WHERE trace = $base), 0) AS change_ms
        FROM accounts
        GROUP BY rank, part
        QUALIFY row_number() OVER (
            PARTITION BY rank ORDER BY abs(
                coalesce(sum(time_ms) FILTER (WHERE trace = $test), 0)
                - coalesce(sum(time_ms) FILTER (WHERE trace = $base), 0)
            ) DESC, part
        ) = 1
    )

SELECT
    coalesce(b.rank, t.rank) AS rank,
    CASE WHEN t.rank IS NULL THEN 'baseline' WHEN b.rank IS NULL THEN 'test' ELSE 'both' END
        AS found_in,
    coalesce(b.per, t.per) AS per, b.step_ms AS base_ms, t.step_ms AS test_ms,
    coalesce(t.step_ms / t.rank_count, 0) - coalesce(b.step_ms / b.rank_count, 0) AS change_ms,
    p.part, p.change_ms AS part_change_ms
FROM (
    SELECT rank, per, step_ms, rank_count
    FROM ranks
    WHERE trace = $base
) AS b
FULL JOIN (
    SELECT rank, per, step_ms, rank_count
    FROM ranks
    WHERE trace = $test
) AS t ON t.rank = b.rank
INNER JOIN parts AS p ON p.rank = coalesce(b.rank, t.rank)
WHERE (SELECT count(DISTINCT per) = 1 AND count(DISTINCT trace) = (CASE WHEN $base = $test THEN 1 ELSE 2 END) FROM ranks)
ORDER BY rank
