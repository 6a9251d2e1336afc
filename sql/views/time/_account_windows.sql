-- @view     _account_windows
-- @summary  What the time of each rank is told by: its steps, from start to next start; the whole
--           trace, from the first start to the last end on its devices, where no rank has a step.
-- @materialize session
-- @requires _windows
-- @reads    steps
-- @caveat   per is step or trace. is_counted: the step is one of those of avg_step_time; of more
--           than two of a rank neither the first nor the last. place counts the windows of a rank
--           from 1 on.
WITH
    ordered AS (
        SELECT
            trace, rank, step, ts_ns, dur_ns,
            row_number() OVER (PARTITION BY trace, rank ORDER BY ts_ns, step) AS place,
            count(*) OVER (PARTITION BY trace, rank) AS step_count,
            lead(ts_ns) OVER (PARTITION BY trace, rank ORDER BY ts_ns, step) AS next_ts_ns
        FROM steps
    ),

    spanned AS (
        SELECT
            trace, rank, step, place, ts_ns AS start_ns,
            coalesce(next_ts_ns, ts_ns + dur_ns) AS end_ns,
            step_count <= 2 OR (place > 1 AND place < step_count) AS is_counted
        FROM ordered
    ),

    stepped AS (
        SELECT DISTINCT trace
        FROM spanned
        WHERE is_counted AND end_ns > start_ns
    )

SELECT s.trace, s.rank, s.step, 'step' AS per, s.place, s.start_ns, s.end_ns, s.is_counted
FROM spanned AS s
INNER JOIN stepped AS t ON t.trace = s.trace
WHERE s.end_ns > s.start_ns
UNION ALL
SELECT w.trace, w.rank, NULL, 'trace', 1, w.start_ns, w.end_ns, TRUE
FROM _windows AS w
WHERE w.basis = 'device'
    AND w.end_ns > w.start_ns
    AND NOT EXISTS (SELECT 1 FROM stepped AS t WHERE t.trace = w.trace)
