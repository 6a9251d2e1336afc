-- @view     step_account
-- @summary  Where the time of each step went on each device: parts that sum to the step, to the
--           nanosecond.
-- @materialize session
-- @partition rank
-- @requires _account_windows busy_intervals
-- @reads    _account_calls _account_parts _idle_parts _cause_ranks
-- @null     no rank with steps has a device
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   device BIGINT dim - | Accelerator; NULL for a rank without one, whose communication
--           runs on the host.
-- @column   step BIGINT dim - | Step; NULL for the whole trace.
-- @column   place BIGINT dim - | Place of the step among those of the rank, from 1 on.
-- @column   is_counted BOOLEAN value - | Whether the step is one of those of avg_step_time.
-- @column   part VARCHAR dim - | compute; of communication without compute beside it transfer, wait
--           (for the last rank of a call) and unmatched (of calls not matched over the ranks); copy
--           (copies and sets without these) and graph (recorded as a whole); of idle time launch,
--           host, data_loading, sync, kernel_gap (up to 10 us between kernels already launched),
--           unknown (the launch is not in the trace) and other.
-- @column   for_rank BIGINT dim - | Of wait, the last rank of the call; NULL where that is the rank
--           itself, which waits for nobody known.
-- @column   cause_rank BIGINT value - | Of wait, the rank to which the waiting goes back: that
--           last rank, or, where it is late mostly because it waited itself, the one that it waited
--           for.
-- @column   time_ns BIGINT value ns lower | Time of the part in the step; all parts of a device are
--           the step.
-- @column   hidden_ns BIGINT value ns | Time of the same kind that something hides: compute the
--           communication, kernels the copies.
-- @column   step_ns BIGINT value ns lower | The step: from start to next start, on the host; of the
--           last one its own duration.
-- @caveat   What the host launched before the end of a step and the device runs later is in the
--           next one. A matched call transfers for as long as the shortest of its events, at the
--           end of each, and waits before. After the last event of a device is other.
-- @source   metrics 2.E (unions per rank and device); parts of idling as in idle_causes
WITH
    windows AS MATERIALIZED (
        SELECT trace, rank, step, place, start_ns, end_ns, is_counted
        FROM _account_windows
    ),

    devices AS (
        SELECT DISTINCT trace, rank, coalesce(device, -1) AS device_key
        FROM busy_intervals
    ),

    -- Disjoint spans, and how much of its kind lies before each of them.
    spans AS MATERIALIZED (
        SELECT
            trace, rank, device_key, part, hidden, start_ns, end_ns,
            sum(end_ns - start_ns) OVER (
                PARTITION BY trace, rank, device_key, part, hidden ORDER BY start_ns
            ) - (end_ns - start_ns) AS before_ns
        FROM _account_parts
    ),

    asked AS (
        SELECT
            w.trace, w.rank, k.device_key, w.place, w.start_ns, w.end_ns, k.part, k.hidden
        FROM windows AS w
        INNER JOIN (
            SELECT DISTINCT trace, rank, device_key, part, hidden FROM spans
        ) AS k ON k.trace = w.trace AND k.rank = w.rank
    ),

    -- Time up to the end of a window less time up to its start.
    inside AS (
        SELECT
            a.trace, a.rank, a.device_key, a.place, a.part, a.hidden,
            e.before_ns + least(a.end_ns, e.end_ns) - e.start_ns
                - coalesce(s.before_ns + least(a.start_ns, s.end_ns) - s.start_ns, 0) AS time_ns
        FROM asked AS a
        ASOF LEFT JOIN spans AS s
            ON s.trace = a.trace AND s.rank = a.rank AND s.device_key = a.device_key
            AND s.part = a.part AND s.hidden = a.hidden AND s.start_ns <= a.start_ns
        ASOF INNER JOIN spans AS e
            ON e.trace = a.trace AND e.rank = a.rank AND e.device_key = a.device_key
            AND e.part = a.part AND e.hidden = a.hidden AND e.start_ns <= a.end_ns
    ),

    -- Of waits at the same time, the one that began first counts; of each the rest beyond it.
    waits AS (
        SELECT
            trace, rank, device_key, last_rank, transfer_ns AS end_ns,
            greatest(start_ns, max(transfer_ns) OVER (
                PARTITION BY trace, rank, device_key ORDER BY start_ns, transfer_ns, last_rank
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )) AS start_ns
        FROM _account_calls
        WHERE transfer_ns > start_ns
    ),

    -- Spans that say what for: the parts of gaps, and the waits.
    labelled AS (
        SELECT
            trace, rank, coalesce(device, -1) AS device_key, part, CAST(NULL AS BIGINT) AS for_rank,
            start_ns, end_ns
        FROM _idle_parts
        UNION ALL
        SELECT trace, rank, device_key, 'wait', last_rank, start_ns, end_ns
        FROM waits
    ),

    -- The windows of a rank follow each other: a span lies in those from the one that holds its
    -- start to the one that holds its last nanosecond.
    bounded AS (
        SELECT
            l.trace, l.rank, l.device_key, l.part, l.for_rank, l.start_ns, l.end_ns,
            coalesce(f.place, 1) AS first_place, t.place AS last_place
        FROM labelled AS l
        ASOF LEFT JOIN windows AS f
            ON f.trace = l.trace AND f.rank = l.rank AND f.start_ns <= l.start_ns
        ASOF INNER JOIN windows AS t
            ON t.trace = l.trace AND t.rank = l.rank AND t.start_ns < l.end_ns
    ),

    spread AS (
        SELECT
            trace, rank, device_key, part, for_rank, start_ns, end_ns,
            unnest(range(first_place, last_place + 1)) AS place
        FROM bounded
    ),

    cut AS (
        SELECT
            s.trace, s.rank, s.device_key, s.part, s.for_rank, s.place,
            greatest(s.start_ns, w.start_ns) AS start_ns, least(s.end_ns, w.end_ns) AS end_ns
        FROM spread AS s
        INNER JOIN windows AS w
            ON w.trace = s.trace AND w.rank = s.rank AND w.place = s.place
        WHERE least(s.end_ns, w.end_ns) > greatest(s.start_ns, w.start_ns)
    ),

    -- Of a wait, what is exposed and what is hidden of it.
    wait_marks AS (
        SELECT
            c.trace, c.rank, c.device_key, c.place, c.for_rank, c.start_ns, c.end_ns, h.hidden
        FROM cut AS c
        CROSS JOIN (VALUES (FALSE), (TRUE)) AS h (hidden)
        WHERE c.part = 'wait'
    ),

    wait_times AS (
        SELECT
            m.trace, m.rank, m.device_key, m.place, m.for_rank, m.hidden,
            e.before_ns + least(m.end_ns, e.end_ns) - e.start_ns
                - coalesce(s.before_ns + least(m.start_ns, s.end_ns) - s.start_ns, 0) AS time_ns
        FROM wait_marks AS m
        ASOF LEFT JOIN (SELECT * FROM spans WHERE part = 'wait') AS s
            ON s.trace = m.trace AND s.rank = m.rank AND s.device_key = m.device_key
            AND s.hidden = m.hidden AND s.start_ns <= m.start_ns
        ASOF INNER JOIN (SELECT * FROM spans WHERE part = 'wait') AS e
            ON e.trace = m.trace AND e.rank = m.rank AND e.device_key = m.device_key
            AND e.hidden = m.hidden AND e.start_ns <= m.end_ns
    ),

    parts AS (
        SELECT
            trace, rank, device_key, place, part, CAST(NULL AS BIGINT) AS for_rank,
            sum(CASE WHEN hidden THEN 0 ELSE time_ns END) AS time_ns,
            sum(CASE WHEN hidden THEN time_ns ELSE 0 END) AS hidden_ns
        FROM inside
        WHERE part NOT IN ('comm', 'wait')
        GROUP BY trace, rank, device_key, place, part
        UNION ALL
        SELECT
            trace, rank, device_key, place, 'unmatched', NULL,
            sum(CASE WHEN hidden THEN 0 WHEN part = 'comm' THEN time_ns ELSE -time_ns END),
            sum(CASE WHEN NOT hidden THEN 0 WHEN part = 'comm' THEN time_ns ELSE -time_ns END)
        FROM inside
        WHERE part IN ('comm', 'transfer', 'wait')
        GROUP BY trace, rank, device_key, place
        UNION ALL
        SELECT
            trace, rank, device_key, place, 'wait', for_rank,
            sum(CASE WHEN hidden THEN 0 ELSE time_ns END),
            sum(CASE WHEN hidden THEN time_ns ELSE 0 END)
        FROM wait_times
        GROUP BY trace, rank, device_key, place, for_rank
        UNION ALL
        SELECT trace, rank, device_key, place, part, NULL, sum(end_ns - start_ns), 0
        FROM cut
        WHERE part NOT IN ('wait', 'other')
        GROUP BY trace, rank, device_key, place, part
    ),

    -- What is left of the window: the gaps that are of no other kind, and what lies after the last
    -- event of the device.
    rests AS (
        SELECT
            w.trace, w.rank, l.device_key, w.place, w.end_ns - w.start_ns - coalesce(p.time_ns, 0) AS rest_ns
        FROM windows AS w
        INNER JOIN devices AS l ON l.trace = w.trace AND l.rank = w.rank
        LEFT JOIN (
            SELECT trace, rank, device_key, place, sum(time_ns) AS time_ns
            FROM parts
            GROUP BY trace, rank, device_key, place
        ) AS p
            ON p.trace = w.trace
            AND p.rank = w.rank
            AND p.device_key = l.device_key
            AND p.place = w.place
    ),

    complete AS (
        SELECT trace, rank, device_key, place, part, for_rank, time_ns, hidden_ns
        FROM parts
        WHERE time_ns > 0 OR hidden_ns > 0
        UNION ALL
        SELECT trace, rank, device_key, place, 'other', NULL, rest_ns, 0
        FROM rests
        WHERE rest_ns > 0
    )

SELECT
    c.trace, c.rank, nullif(c.device_key, -1) AS device, w.step, w.place, w.is_counted, c.part,
    c.for_rank, coalesce(r.cause_rank, c.for_rank) AS cause_rank,
    CAST(c.time_ns AS BIGINT) AS time_ns, CAST(c.hidden_ns AS BIGINT) AS hidden_ns,
    w.end_ns - w.start_ns AS step_ns
FROM complete AS c
INNER JOIN windows AS w
    ON w.trace = c.trace AND w.rank = c.rank AND w.place = c.place
LEFT JOIN _cause_ranks AS r ON r.trace = c.trace AND r.late_rank = c.for_rank
ORDER BY c.trace, c.rank, device, c.place, c.part, c.for_rank
