-- @view     _phase_windows
-- @summary  The time of each rank that has phases, cut into these and what lies between them,
--           before the first and behind the last (rest): windows that follow each other.
-- @partition rank
-- @requires phases
-- @caveat   place counts the windows of a rank from 1 on.
WITH
    marks AS (
        SELECT trace, source, rank, phase, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns
        FROM phases
    ),

    between_marks AS (
        SELECT
            trace, source, rank, end_ns AS start_ns,
            lead(start_ns, 1, 9223372036854775807) OVER (
                PARTITION BY trace, source, rank ORDER BY start_ns, end_ns
            ) AS end_ns
        FROM marks
        UNION ALL
        SELECT trace, source, rank, -9223372036854775808 AS start_ns, min(start_ns) AS end_ns
        FROM marks
        GROUP BY trace, source, rank
    ),

    windows AS (
        SELECT trace, source, rank, phase, start_ns, end_ns FROM marks
        UNION ALL
        SELECT trace, source, rank, 'rest', start_ns, end_ns
        FROM between_marks
        WHERE start_ns < end_ns
    )

SELECT
    trace, source, rank, phase, start_ns, end_ns,
    row_number() OVER (PARTITION BY trace, source, rank ORDER BY start_ns, end_ns) AS place
FROM windows
