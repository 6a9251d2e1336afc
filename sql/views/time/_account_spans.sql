-- @view     _account_spans
-- @summary  What each device does at each moment of the steps of its rank: disjoint spans that fill
--           the steps, and sum to the parts of step_account.
-- @requires _account_windows busy_intervals
-- @reads    _account_parts _idle_parts
-- @caveat   Of waits it does not say for whom. other is what is left of a step.
WITH
    -- Communication that is neither transfer nor wait is of no matched call.
    comm AS (
        SELECT
            trace, rank, device_key,
            coalesce(
                array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE part = 'comm'), []
            ) AS all_spans,
            coalesce(
                array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE part <> 'comm'), []
            ) AS known_spans
        FROM _account_parts
        WHERE NOT hidden AND part IN ('comm', 'transfer', 'wait')
        GROUP BY trace, rank, device_key
    ),

    unmatched AS (
        SELECT trace, rank, device_key, unnest(interval_subtract(all_spans, known_spans)) AS span
        FROM comm
    ),

    parts AS MATERIALIZED (
        SELECT trace, rank, device_key, part, start_ns, end_ns
        FROM _account_parts
        WHERE NOT hidden AND part <> 'comm'
        UNION ALL
        SELECT trace, rank, device_key, 'unmatched', span.start_ns, span.end_ns
        FROM unmatched
        UNION ALL
        SELECT trace, rank, coalesce(device, -1), part, start_ns, end_ns
        FROM _idle_parts
        WHERE rank IS NOT NULL AND part <> 'other'
    ),

    windows AS MATERIALIZED (
        SELECT w.trace, w.rank, d.device_key, w.step, w.place, w.start_ns, w.end_ns
        FROM _account_windows AS w
        INNER JOIN (
            SELECT DISTINCT trace, rank, coalesce(device, -1) AS device_key
            FROM busy_intervals
        ) AS d ON d.trace = w.trace AND d.rank = w.rank
    ),

    taken AS (
        SELECT
            trace, rank, device_key,
            array_agg({start_ns: start_ns, end_ns: end_ns}) AS spans
        FROM parts
        GROUP BY trace, rank, device_key
    ),

    covered AS (
        SELECT
            trace, rank, device_key,
            array_agg({start_ns: start_ns, end_ns: end_ns}) AS spans
        FROM windows
        GROUP BY trace, rank, device_key
    ),

    others AS (
        SELECT
            c.trace, c.rank, c.device_key,
            unnest(interval_subtract(c.spans, coalesce(t.spans, []))) AS span
        FROM covered AS c
        LEFT JOIN taken AS t
            ON t.trace = c.trace AND t.rank = c.rank AND t.device_key = c.device_key
    ),

    complete AS (
        SELECT trace, rank, device_key, part, start_ns, end_ns
        FROM parts
        UNION ALL
        SELECT trace, rank, device_key, 'other', span.start_ns, span.end_ns
        FROM others
    ),

    -- The windows of a rank follow each other: a span lies in those from the one that holds its
    -- start to the one that holds its last nanosecond.
    bounded AS (
        SELECT
            c.trace, c.rank, c.device_key, c.part, c.start_ns, c.end_ns,
            coalesce(f.place, 1) AS first_place, t.place AS last_place
        FROM complete AS c
        ASOF LEFT JOIN windows AS f
            ON f.trace = c.trace AND f.rank = c.rank AND f.device_key = c.device_key
            AND f.start_ns <= c.start_ns
        ASOF INNER JOIN windows AS t
            ON t.trace = c.trace AND t.rank = c.rank AND t.device_key = c.device_key
            AND t.start_ns < c.end_ns
    ),

    spread AS (
        SELECT
            trace, rank, device_key, part, start_ns, end_ns,
            unnest(range(first_place, last_place + 1)) AS place
        FROM bounded
    )

SELECT
    s.trace, s.rank, nullif(s.device_key, -1) AS device, w.step, w.place, s.part,
    greatest(s.start_ns, w.start_ns) AS start_ns, least(s.end_ns, w.end_ns) AS end_ns
FROM spread AS s
INNER JOIN windows AS w
    ON w.trace = s.trace AND w.rank = s.rank AND w.device_key = s.device_key AND w.place = s.place
WHERE least(s.end_ns, w.end_ns) > greatest(s.start_ns, w.start_ns)
