-- @diagnosis slow_rank
-- @version  1
-- @summary  A rank computes longer than the others, and they wait for it.
-- @profilers kineto nsys xla
-- @requires _rank_account
-- @reads    _diagnosis_limits
-- @gain     the most that another rank waits, exposed, for this one, directly or for one that waits
--           for it; not more than its compute is longer than the median of the ranks
-- @shown    straggler_by_rank
-- @check    (SELECT count(DISTINCT rank) FROM _rank_account) > 1 | a single rank was ingested
-- @source   waiting goes back as in straggler_by_rank; compute as in step_account
WITH
    computes AS (
        SELECT trace, rank, time_ms AS compute_ms
        FROM _rank_account
        WHERE part = 'compute'
    ),

    medians AS (
        SELECT trace, median(compute_ms) AS median_ms
        FROM computes
        GROUP BY trace
    ),

    waits AS (
        SELECT trace, rank, cause_rank, sum(time_ms ORDER BY for_rank) AS wait_ms
        FROM _rank_account
        WHERE part = 'wait' AND cause_rank <> rank
        GROUP BY trace, rank, cause_rank
    ),

    waited AS (
        SELECT
            trace, cause_rank AS rank, count(*) AS rank_count, max(wait_ms) AS most_ms,
            avg(wait_ms ORDER BY rank) AS mean_ms
        FROM waits
        GROUP BY trace, cause_rank
    ),

    slow AS (
        SELECT
            c.trace, c.rank, c.compute_ms, m.median_ms, c.compute_ms - m.median_ms AS excess_ms,
            w.rank_count, w.mean_ms, w.most_ms
        FROM computes AS c
        INNER JOIN medians AS m ON m.trace = c.trace
        INNER JOIN waited AS w ON w.trace = c.trace AND w.rank = c.rank
        WHERE c.compute_ms > m.median_ms
    )

SELECT
    s.trace,
    printf(
        'rank %d computes %.1f %% longer than the median rank (%.3f ms against %.3f ms of a step); %d ranks wait for it, %.3f ms each',
        s.rank, 100 * s.excess_ms / nullif(s.median_ms, 0), s.compute_ms, s.median_ms, s.rank_count,
        s.mean_ms
    ) AS finding,
    {rank: s.rank} AS "where",
    s.mean_ms AS time_per_step_ms,
    least(s.most_ms, s.excess_ms) AS gain_ms,
    [l.steps_limit, l.clocks_limit, l.matches_limit] AS limits,
    'compare its kernels with those of another rank: the same kernels slower point to the device (clocks, power, temperature, another process), other or larger kernels to uneven work (layers of a stage, tokens of experts, sequence lengths)'
        AS advice,
    'SELECT rank, part, for_rank, time_ms FROM _rank_account WHERE trace = {trace} AND part IN (''compute'', ''wait'') ORDER BY ALL'
        AS evidence
FROM slow AS s
INNER JOIN _diagnosis_limits AS l ON l.trace = s.trace
WHERE least(s.most_ms, s.excess_ms) > 0
