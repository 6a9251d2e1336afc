-- @view     _stack_parts
-- @summary  What runs on the threads of the hosts, cut at the bounds of the phases: functions of
--           Python, ranges, operators, calls of the runtime, with the device time that they launch.
-- @requires host_events
-- @reads    phases launches device_events
-- @caveat   Outside the phases the phase is rest; NULL where the rank has none.
WITH
    marks AS (
        SELECT trace, source, rank, phase, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns
        FROM phases
        WHERE dur_ns > 0
    ),

    -- What lies between them, before the first and behind the last.
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
        SELECT trace, source, rank, 'rest' AS phase, start_ns, end_ns
        FROM between_marks
        WHERE start_ns < end_ns
    ),

    -- The call launches, where it is not recorded the operator around it.
    launched AS (
        SELECT
            l.trace, coalesce(l.runtime_event_id, l.op_event_id) AS event_id,
            least(sum(d.dur_ns), 9223372036854775807) AS device_ns
        FROM launches AS l
        INNER JOIN device_events AS d ON d.event_id = l.event_id AND d.trace = l.trace
        WHERE d.dur_ns > 0 AND coalesce(l.runtime_event_id, l.op_event_id) IS NOT NULL
        GROUP BY l.trace, coalesce(l.runtime_event_id, l.op_event_id)
    ),

    frames AS (
        SELECT
            h.trace, h.source, h.rank, h.pid, h.tid, h.class, h.name, h.ts_ns,
            h.ts_ns + h.dur_ns AS end_ns,
            coalesce(d.device_ns, 0) AS device_ns
        FROM host_events AS h
        LEFT JOIN launched AS d ON d.trace = h.trace AND d.event_id = h.event_id
        WHERE h.class IN ('python', 'host_annotation', 'host_op', 'host_runtime') AND h.dur_ns >= 0
    )

SELECT
    f.trace, f.source, f.rank, f.pid, f.tid, w.phase, f.class, f.name,
    f.ts_ns, f.end_ns AS whole_end_ns,
    greatest(f.ts_ns, coalesce(w.start_ns, f.ts_ns)) AS start_ns,
    least(f.end_ns, coalesce(w.end_ns, f.end_ns)) AS end_ns,
    -- The first part counts.
    CASE WHEN f.ts_ns >= coalesce(w.start_ns, f.ts_ns) THEN 1 ELSE 0 END AS calls,
    CASE WHEN f.ts_ns >= coalesce(w.start_ns, f.ts_ns) THEN f.device_ns ELSE 0 END AS device_ns
FROM frames AS f
LEFT JOIN windows AS w
    ON w.trace = f.trace AND w.source = f.source AND w.rank IS NOT DISTINCT FROM f.rank
    AND f.ts_ns < w.end_ns AND (f.end_ns > w.start_ns OR f.ts_ns = w.start_ns)
