-- @view     _rank_account
-- @summary  Where the step of each rank goes: parts of step_account, mean over the steps that count
--           and over its devices; of the whole trace where there are no steps.
-- @materialize session
-- @partition rank
-- @requires step_account
-- @caveat   per is step or trace. All time_ms of a rank are step_ms.
WITH
    counted AS MATERIALIZED (
        SELECT
            trace, rank, device, step, place, step_ns, part, for_rank, cause_rank, time_ns, hidden_ns
        FROM step_account
        WHERE is_counted
    ),

    windows AS (
        SELECT
            trace, rank, bool_or(step IS NULL) AS is_trace, count(DISTINCT place) AS window_count,
            count(*) AS share_count, sum(step_ns) / 1e6 / count(*) AS step_ms
        FROM (
            SELECT DISTINCT trace, rank, device, step, place, step_ns
            FROM counted
        )
        GROUP BY trace, rank
    ),

    parts AS (
        SELECT
            trace, rank, part, for_rank, cause_rank, sum(time_ns) AS time_ns,
            sum(hidden_ns) AS hidden_ns
        FROM counted
        GROUP BY trace, rank, part, for_rank, cause_rank
    )

SELECT
    p.trace, p.rank, CASE WHEN w.is_trace THEN 'trace' ELSE 'step' END AS per, w.window_count,
    w.step_ms, p.part, p.for_rank, p.cause_rank, p.time_ns / 1e6 / w.share_count AS time_ms,
    p.hidden_ns / 1e6 / w.share_count AS hidden_ms
FROM parts AS p
INNER JOIN windows AS w ON w.trace = p.trace AND w.rank = p.rank
