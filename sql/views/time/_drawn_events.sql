-- @view     _drawn_events
-- @summary  Device events of the step that is drawn, with their lane, and whether each is drawn as
--           a span of its own: the 50,000 longest of the step are.
-- @requires device_events _drawn_windows _clock_shifts
-- @caveat   Where there are more, those as long as the shortest of the 50,000 are not: ranks that
--           do the same are drawn alike.
WITH
    events AS (
        SELECT
            e.trace, w.step, e.rank, e.device, e.event_id, e.name,
            e.ts_ns - o.shift_ns AS ts_ns, e.dur_ns,
            w.start_ns AS window_ns,
            CASE WHEN e.class IN ('set', 'graph') THEN 'compute' ELSE e.class END AS lane
        FROM device_events AS e
        INNER JOIN _clock_shifts AS o
            ON o.trace = e.trace AND o.rank = e.rank AND o.aligned = o.by_itself
        INNER JOIN _drawn_windows AS w
            ON w.trace = e.trace
            AND e.ts_ns - o.shift_ns < w.end_ns
            AND e.ts_ns + e.dur_ns - o.shift_ns > w.start_ns
        WHERE e.class IN ('compute', 'comm', 'copy', 'set', 'graph')
    ),

    limits AS (
        SELECT
            trace,
            CASE WHEN count(*) > 50000 THEN list_min(max(dur_ns, 50000)) ELSE -1 END AS least_ns
        FROM events
        GROUP BY trace
    )

SELECT
    e.trace, e.step, e.rank, e.device, e.event_id, e.name, e.lane, e.ts_ns, e.dur_ns, e.window_ns,
    e.dur_ns > l.least_ns AS is_span
FROM events AS e
INNER JOIN limits AS l ON l.trace = e.trace
