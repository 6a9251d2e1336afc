-- @view     _step_flops
-- @summary  Floating-point operations that the device events of each step of a rank state.
-- @materialize session
-- @partition rank
-- @requires device_events step_events
-- @reads    launches
-- @caveat   step is NULL for events of no step. known_flops are of events whose launch is known;
--           those of XLA count as known.
WITH
    stated AS (
        SELECT trace, source, rank, event_id, flops
        FROM device_events
        WHERE flops IS NOT NULL AND rank IS NOT NULL
    )

SELECT
    s.trace, s.rank, e.step,
    sum(s.flops) AS flops,
    coalesce(sum(s.flops) FILTER (WHERE s.source = 'xla' OR l.event_id IS NOT NULL), 0)
        AS known_flops
FROM stated AS s
LEFT JOIN step_events AS e ON e.trace = s.trace AND e.event_id = s.event_id
LEFT JOIN launches AS l ON l.trace = s.trace AND l.event_id = s.event_id
GROUP BY s.trace, s.rank, e.step
