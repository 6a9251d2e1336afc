-- @view     _blocking_calls
-- @summary  Runtime calls of the host, and whether each waits for the device: synchronising calls,
--           and copies that end before their call returns.
-- @partition rank
-- @requires _runtime_calls
-- @reads    _launch_calls
-- @caveat   waits: the name of the call says so. copy_end_ns: end of the last copy of the call that
--           ended before it returned, which it waited for.
SELECT
    r.trace, r.rank, r.event_id, r.name, r.pid, r.tid, r.ts_ns, r.end_ns, r.waits, c.copy_end_ns
FROM _runtime_calls AS r
LEFT JOIN (
    SELECT trace, runtime_event_id, max(ts_ns + dur_ns) AS copy_end_ns
    FROM _launch_calls
    WHERE class = 'copy' AND ts_ns + dur_ns <= launched_ns
    GROUP BY trace, runtime_event_id
) AS c ON c.trace = r.trace AND c.runtime_event_id = r.event_id
