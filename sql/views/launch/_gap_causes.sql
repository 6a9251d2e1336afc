-- @view     _gap_causes
-- @summary  Idle gaps of the devices with the launch of what ends each of them: how much of the gap
--           lies before the launch call returned, and of that in the call (call_ns).
-- @partition rank
-- @requires _gaps device_events
-- @reads    _account_windows _launch_calls busy_intervals
-- @caveat   Of several events that end a gap at once, the one whose launch returned first counts.
--           is_first: what lies between the first step of the rank and the first event of the
--           device, which is no gap of _gaps.
WITH
    gaps AS MATERIALIZED (
        SELECT trace, rank, device, start_ns, end_ns, FALSE AS is_first
        FROM _gaps
        UNION ALL
        SELECT w.trace, w.rank, b.device, w.start_ns, b.start_ns, TRUE
        FROM _account_windows AS w
        INNER JOIN (
            SELECT trace, rank, device, min(start_ns) AS start_ns
            FROM busy_intervals
            GROUP BY trace, rank, device
        ) AS b ON b.trace = w.trace AND b.rank = w.rank AND b.start_ns > w.start_ns
        WHERE w.place = 1 AND w.per = 'step'
    ),

    -- Only what starts where a gap ends; what is of no rank has no launch. Made first: in one plan
    -- with the launches, gaps might meet all of them by the trace alone.
    enders AS MATERIALIZED (
        SELECT g.trace, g.rank, g.device, g.start_ns, d.event_id
        FROM gaps AS g
        INNER JOIN device_events AS d
            ON d.trace = g.trace
            AND d.rank = g.rank
            AND d.device IS NOT DISTINCT FROM g.device
            AND d.ts_ns = g.end_ns
    ),

    launched AS (
        SELECT
            e.trace, e.rank, e.device, e.start_ns, e.event_id,
            l.launch_ts_ns, l.launched_ns, l.pid, l.tid
        FROM enders AS e
        INNER JOIN _launch_calls AS l ON l.trace = e.trace AND l.event_id = e.event_id
        QUALIFY row_number() OVER (
            PARTITION BY e.trace, e.rank, e.device, e.start_ns ORDER BY l.launched_ns, e.event_id
        ) = 1
    )

SELECT
    g.trace, g.rank, g.device, g.start_ns, g.end_ns, g.end_ns - g.start_ns AS gap_ns,
    g.is_first, l.event_id, l.pid, l.tid,
    CASE
        WHEN l.launched_ns > g.start_ns THEN least(l.launched_ns, g.end_ns) - g.start_ns
        WHEN l.launched_ns IS NOT NULL THEN 0
    END AS host_wait_ns,
    greatest(
        least(l.launched_ns, g.end_ns) - greatest(least(l.launch_ts_ns, g.end_ns), g.start_ns), 0
    ) AS call_ns
FROM gaps AS g
LEFT JOIN launched AS l
    ON l.trace = g.trace
    AND l.rank = g.rank
    AND l.device IS NOT DISTINCT FROM g.device
    AND l.start_ns = g.start_ns
