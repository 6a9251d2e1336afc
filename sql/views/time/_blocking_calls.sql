-- @view     _blocking_calls
-- @summary  Runtime calls of the host, and whether each waits for the device: synchronising calls,
--           and copies that end before their call returns.
-- @partition rank
-- @requires host_events
-- @reads    _launch_calls
-- @caveat   waits: the name of the call says so. copy_end_ns: end of the last copy of the call that
--           ended before it returned, which it waited for.
SELECT
    h.trace, h.rank, h.event_id, h.name, h.pid, h.tid, h.ts_ns, h.ts_ns + h.dur_ns AS end_ns,
    h.name LIKE '%StreamSynchronize%'
        OR h.name LIKE '%DeviceSynchronize%'
        OR h.name LIKE '%CtxSynchronize%'
        OR h.name LIKE '%EventSynchronize%'
        OR h.name IN ('cudaMemcpy', 'cudaMemcpy2D', 'hipMemcpy', 'hipMemcpyWithStream')
        OR h.name LIKE 'cudaMemcpy\_v%' ESCAPE '\'
        OR h.name LIKE 'cuMemcpyDtoH\_v%' ESCAPE '\'
        AS waits,
    c.copy_end_ns
FROM host_events AS h
LEFT JOIN (
    SELECT trace, runtime_event_id, max(ts_ns + dur_ns) AS copy_end_ns
    FROM _launch_calls
    WHERE class = 'copy' AND ts_ns + dur_ns <= launched_ns
    GROUP BY trace, runtime_event_id
) AS c ON c.trace = h.trace AND c.runtime_event_id = h.event_id
WHERE h.class = 'host_runtime'
