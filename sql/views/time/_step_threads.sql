-- @view     _step_threads
-- @summary  The thread of the host whose annotation marks a step.
-- @requires steps host_ranges
-- @caveat   Several rows where several annotations span the same time.
SELECT s.trace, s.rank, s.step, s.ts_ns + s.dur_ns AS end_ns, r.event_id, r.pid, r.tid
FROM steps AS s
INNER JOIN host_ranges AS r
    ON r.trace = s.trace AND r.rank = s.rank AND r.ts_ns = s.ts_ns AND r.dur_ns = s.dur_ns
WHERE r.kind = 'annotation'
