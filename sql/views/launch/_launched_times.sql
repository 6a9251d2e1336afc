-- @view     _launched_times
-- @summary  Durations of the device events that a call on the host launches, added up.
-- @partition rank
-- @requires launches device_events
SELECT
    l.trace, l.runtime_event_id AS event_id,
    least(sum(d.dur_ns), 9223372036854775807) AS device_ns
FROM launches AS l
INNER JOIN device_events AS d ON d.event_id = l.event_id AND d.trace = l.trace
WHERE d.dur_ns > 0
GROUP BY l.trace, l.runtime_event_id
