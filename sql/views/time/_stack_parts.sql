-- @view     _stack_parts
-- @summary  What runs on the threads of the hosts, cut at the bounds of the phases: functions of
--           Python, ranges, operators, calls of the runtime, with the device time that they launch.
-- @partition rank
-- @requires host_events
-- @reads    _phase_windows _launched_times
-- @caveat   Outside the phases the phase is rest; NULL where the rank has none.
WITH
    frames AS (
        SELECT
            h.trace, h.source, h.rank, h.pid, h.tid, h.class, h.name, h.ts_ns,
            h.ts_ns + h.dur_ns AS end_ns,
            coalesce(d.device_ns, 0) AS device_ns
        FROM host_events AS h
        LEFT JOIN _launched_times AS d ON d.trace = h.trace AND d.event_id = h.event_id
        WHERE h.class IN ('python', 'host_annotation', 'host_op', 'host_runtime') AND h.dur_ns >= 0
    ),

    -- The window in which a frame begins, and the last one that it reaches.
    placed AS (
        SELECT
            f.trace, f.source, f.rank, f.pid, f.tid, f.class, f.name, f.ts_ns, f.end_ns,
            f.device_ns, b.place AS first_place, greatest(b.place, e.place) AS last_place
        FROM frames AS f
        ASOF LEFT JOIN _phase_windows AS b
            ON b.trace = f.trace AND b.source = f.source AND b.rank = f.rank
            AND b.start_ns <= f.ts_ns
        ASOF LEFT JOIN _phase_windows AS e
            ON e.trace = f.trace AND e.source = f.source AND e.rank = f.rank
            AND e.start_ns < f.end_ns
    ),

    parts AS (
        SELECT
            trace, source, rank, pid, tid, class, name, ts_ns, end_ns, device_ns,
            first_place,
            unnest(
                CASE WHEN first_place IS NULL THEN [NULL] ELSE range(first_place, last_place + 1) END
            ) AS place
        FROM placed
    )

SELECT
    p.trace, p.source, p.rank, p.pid, p.tid, w.phase, p.class, p.name,
    p.ts_ns, p.end_ns AS whole_end_ns,
    greatest(p.ts_ns, w.start_ns) AS start_ns,
    least(p.end_ns, w.end_ns) AS end_ns,
    -- The first part counts.
    CASE WHEN p.place IS NULL OR p.place = p.first_place THEN 1 ELSE 0 END AS calls,
    CASE WHEN p.place IS NULL OR p.place = p.first_place THEN p.device_ns ELSE 0 END AS device_ns
FROM parts AS p
LEFT JOIN _phase_windows AS w
    ON w.trace = p.trace AND w.source = p.source AND w.rank = p.rank AND w.place = p.place
