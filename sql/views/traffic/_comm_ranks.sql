-- @view     _comm_ranks
-- @summary  Ranks with a window, over which volumes and times of communication are averaged, and in
--           how many steps each counts: one in all where the trace has no steps, NULL where a rank
--           has none or communicates and no launch of that is known.
-- @materialize session
-- @requires _comm_launches _windows steps
WITH
    step_counts AS (
        SELECT trace, rank, count(*) AS step_count
        FROM steps
        GROUP BY trace, rank
    ),

    ranks_seen AS (
        SELECT
            w.trace, w.rank,
            count(s.rank) OVER (PARTITION BY w.trace) > 0 AS has_steps,
            CASE WHEN coalesce(l.launched_calls > 0, true) THEN s.step_count END AS step_count
        FROM _windows AS w
        LEFT JOIN step_counts AS s ON s.trace = w.trace AND s.rank = w.rank
        LEFT JOIN _comm_launches AS l ON l.trace = w.trace AND l.rank = w.rank
    ),

    counted AS (
        SELECT trace, rank, has_steps, CASE WHEN has_steps THEN step_count ELSE 1 END AS step_count
        FROM ranks_seen
    )

SELECT
    trace, rank, has_steps, step_count,
    count(*) OVER (PARTITION BY trace) AS num_ranks,
    nullif(count(step_count) OVER (PARTITION BY trace), 0) AS step_ranks
FROM counted
