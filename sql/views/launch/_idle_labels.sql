-- @view     _idle_labels
-- @summary  What the host does while a device is idle: the time of each part of idle time in a
--           step, by operator, range and phase on the launching thread, and by call that waits.
-- @materialize session
-- @partition rank
-- @requires _idle_parts _account_windows _account_shares
-- @reads    _blocking_calls host_ranges host_events steps phases
-- @caveat   Mean over the steps that count and over the devices of a rank, as _rank_account. kind:
--           all (name is NULL), operator (outermost ones), range (outermost annotations that are no
--           steps), phase, call (of the runtime, of 100 us and more), and of sync the call that
--           waits, with the outermost operator around it (NULL for none). What no operator, range
--           or phase holds has no row: it is all less these. spans_per_step of call are calls.
WITH
    spans AS (
        SELECT
            trace, rank, coalesce(device, -1) AS device_key, part, thread, wait_event_id, start_ns,
            end_ns
        FROM _idle_parts
        WHERE part <> 'other'
    ),

    bounded AS (
        SELECT
            s.trace, s.rank, s.device_key, s.part, s.thread, s.wait_event_id, s.start_ns, s.end_ns,
            coalesce(f.place, 1) AS first_place, t.place AS last_place
        FROM spans AS s
        ASOF LEFT JOIN _account_windows AS f
            ON f.trace = s.trace AND f.rank = s.rank AND f.start_ns <= s.start_ns
        ASOF INNER JOIN _account_windows AS t
            ON t.trace = s.trace AND t.rank = s.rank AND t.start_ns < s.end_ns
    ),

    spread AS (
        SELECT
            trace, rank, device_key, part, thread, wait_event_id, start_ns, end_ns,
            unnest(range(first_place, last_place + 1)) AS place
        FROM bounded
    ),

    cut AS MATERIALIZED (
        SELECT
            s.trace, s.rank, s.device_key, s.part, s.thread, s.wait_event_id,
            greatest(s.start_ns, w.start_ns) AS start_ns, least(s.end_ns, w.end_ns) AS end_ns
        FROM spread AS s
        INNER JOIN _account_windows AS w
            ON w.trace = s.trace AND w.rank = s.rank AND w.place = s.place
        WHERE w.is_counted AND least(s.end_ns, w.end_ns) > greatest(s.start_ns, w.start_ns)
    ),

    -- Spans that follow each other are one.
    joined AS (
        SELECT
            trace, rank, device_key, part, end_ns - start_ns AS time_ns,
            sum(CASE WHEN is_next THEN 0 ELSE 1 END) OVER (
                PARTITION BY trace, rank, device_key, part ORDER BY start_ns
                ROWS UNBOUNDED PRECEDING
            ) AS place
        FROM (
            SELECT
                trace, rank, device_key, part, start_ns, end_ns,
                start_ns = lag(end_ns) OVER (
                    PARTITION BY trace, rank, device_key, part ORDER BY start_ns
                ) AS is_next
            FROM cut
        )
    ),

    totals AS (
        SELECT
            trace, rank, part, sum(time_ns) AS time_ns, count(*) AS span_count,
            max(time_ns) AS longest_ns
        FROM (
            SELECT trace, rank, device_key, part, place, sum(time_ns) AS time_ns
            FROM joined
            GROUP BY trace, rank, device_key, part, place
        )
        GROUP BY trace, rank, part
    ),

    -- How long a device had been idle for a part by the end of each span.
    idled AS MATERIALIZED (
        SELECT
            trace, rank, device_key, part, thread, start_ns, end_ns,
            sum(end_ns - start_ns) OVER (
                PARTITION BY trace, rank, device_key, part, thread ORDER BY start_ns
                ROWS UNBOUNDED PRECEDING
            ) AS idle_ns
        FROM cut
        WHERE part IN ('launch', 'host')
    ),

    ranges AS MATERIALIZED (
        SELECT
            trace, rank, concat_ws(':', pid, tid) AS thread, kind, event_id, parent_event_id, ts_ns,
            ts_ns + dur_ns AS end_ns
        FROM host_ranges
    ),

    markers AS (
        SELECT r.trace, r.event_id
        FROM ranges AS r
        INNER JOIN steps AS s
            ON s.trace = r.trace
            AND s.rank = r.rank
            AND s.ts_ns = r.ts_ns
            AND s.ts_ns + s.dur_ns = r.end_ns
    ),

    labels AS (
        SELECT trace, rank, thread, kind, event_id, CAST(NULL AS VARCHAR) AS name, ts_ns, end_ns
        FROM ranges
        WHERE kind = 'operator'
        UNION ALL
        SELECT r.trace, r.rank, r.thread, 'range', r.event_id, NULL, r.ts_ns, r.end_ns
        FROM ranges AS r
        LEFT JOIN markers AS m ON m.trace = r.trace AND m.event_id = r.event_id
        LEFT JOIN markers AS p ON p.trace = r.trace AND p.event_id = r.parent_event_id
        WHERE r.kind = 'annotation'
            AND m.event_id IS NULL
            AND (r.parent_event_id IS NULL OR p.event_id IS NOT NULL)
        UNION ALL
        SELECT
            trace, rank, concat_ws(':', coalesce(pid, -1), coalesce(tid, -1)), 'call', event_id, NULL,
            ts_ns, end_ns
        FROM _blocking_calls
        WHERE end_ns - ts_ns >= 100000
        UNION ALL
        SELECT p.trace, p.rank, t.thread, 'phase', NULL, p.phase, p.ts_ns, p.ts_ns + p.dur_ns
        FROM phases AS p
        INNER JOIN (SELECT DISTINCT trace, rank, thread FROM idled) AS t
            ON t.trace = p.trace AND t.rank = p.rank
    ),

    keys AS (
        SELECT DISTINCT trace, rank, device_key, part, thread
        FROM idled
    ),

    -- The idle time during a label: what there had been by its end, less that by its start.
    label_times AS (
        SELECT
            l.trace, l.rank, k.part, l.kind, l.event_id, l.name,
            coalesce(e.idle_ns - greatest(e.end_ns - l.end_ns, 0), 0)
            - coalesce(s.idle_ns - greatest(s.end_ns - l.ts_ns, 0), 0) AS time_ns
        FROM labels AS l
        INNER JOIN keys AS k ON k.trace = l.trace AND k.rank = l.rank AND k.thread = l.thread
        ASOF LEFT JOIN idled AS s
            ON s.trace = l.trace AND s.rank = l.rank AND s.device_key = k.device_key
            AND s.part = k.part AND s.thread = l.thread AND s.start_ns <= l.ts_ns
        ASOF LEFT JOIN idled AS e
            ON e.trace = l.trace AND e.rank = l.rank AND e.device_key = k.device_key
            AND e.part = k.part AND e.thread = l.thread AND e.start_ns <= l.end_ns
    ),

    named AS (
        SELECT
            l.trace, l.rank, l.part, l.kind, coalesce(l.name, h.name) AS name,
            CAST(NULL AS VARCHAR) AS operator, sum(l.time_ns) AS time_ns, count(*) AS span_count,
            max(l.time_ns) AS longest_ns
        FROM label_times AS l
        LEFT JOIN host_events AS h ON h.trace = l.trace AND h.event_id = l.event_id
        WHERE l.time_ns > 0
        GROUP BY l.trace, l.rank, l.part, l.kind, coalesce(l.name, h.name)
    ),

    -- The call that waits, and the operator around it.
    synced AS (
        SELECT
            c.trace, c.rank, w.name, w.ts_ns AS call_ns, c.end_ns - c.start_ns AS time_ns,
            CASE WHEN o.end_ns > w.ts_ns THEN o.event_id END AS event_id
        FROM cut AS c
        INNER JOIN _blocking_calls AS w ON w.trace = c.trace AND w.event_id = c.wait_event_id
        ASOF LEFT JOIN (
            SELECT trace, rank, thread, event_id, ts_ns, end_ns
            FROM ranges
            WHERE kind = 'operator'
        ) AS o
            ON o.trace = c.trace AND o.rank = c.rank AND o.thread = c.thread
            AND o.ts_ns <= w.ts_ns
        WHERE c.part = 'sync'
    ),

    calls AS (
        SELECT
            s.trace, s.rank, 'sync' AS part, 'call' AS kind, s.name, h.name AS operator,
            sum(s.time_ns) AS time_ns, count(*) AS span_count, max(s.time_ns) AS longest_ns
        FROM (
            SELECT trace, rank, name, event_id, call_ns, sum(time_ns) AS time_ns
            FROM synced
            GROUP BY trace, rank, name, event_id, call_ns
        ) AS s
        LEFT JOIN host_events AS h ON h.trace = s.trace AND h.event_id = s.event_id
        GROUP BY s.trace, s.rank, s.name, h.name
    ),

    rows AS (
        SELECT
            trace, rank, part, 'all' AS kind, CAST(NULL AS VARCHAR) AS name,
            CAST(NULL AS VARCHAR) AS operator, time_ns, span_count, longest_ns
        FROM totals
        UNION ALL
        SELECT trace, rank, part, kind, name, operator, time_ns, span_count, longest_ns
        FROM named
        UNION ALL
        SELECT trace, rank, part, kind, name, operator, time_ns, span_count, longest_ns
        FROM calls
    )

SELECT
    r.trace, r.rank, r.part, r.kind, r.name, r.operator, r.time_ns / 1e6 / s.share_count AS time_ms,
    CAST(r.span_count AS DOUBLE) / s.share_count AS spans_per_step, r.longest_ns / 1e6 AS longest_ms
FROM rows AS r
INNER JOIN _account_shares AS s ON s.trace = r.trace AND s.rank = r.rank
