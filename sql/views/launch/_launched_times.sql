-- @view     _launched_times
-- @summary  Durations of the device events that a call on the host launches, added up; of the
--           operator around the call, where the call is not recorded.
-- @partition rank
-- @requires launches device_events
SELECT
    l.trace, coalesce(l.runtime_event_id, l.op_event_id) AS event_id,
    least(sum(d.dur_ns), 9223372036854775807) AS device_ns
FROM launches AS l
INNER JOIN device_events AS d ON d.event_id = l.event_id AND d.trace = l.trace
WHERE d.dur_ns > 0 AND coalesce(l.runtime_event_id, l.op_event_id) IS NOT NULL
GROUP BY l.trace, coalesce(l.runtime_event_id, l.op_event_id)
