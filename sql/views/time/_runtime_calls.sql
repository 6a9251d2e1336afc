-- @view     _runtime_calls
-- @summary  Runtime calls of the host, and whether the name of each says that it waits for the
--           device.
-- @partition rank
-- @requires host_events
-- @caveat   Process and thread are both NULL where one of them is not known, as in launches.
SELECT
    trace, rank, event_id, name,
    CASE WHEN tid IS NOT NULL THEN pid END AS pid, CASE WHEN pid IS NOT NULL THEN tid END AS tid,
    ts_ns, ts_ns + dur_ns AS end_ns,
    name LIKE '%StreamSynchronize%'
        OR name LIKE '%DeviceSynchronize%'
        OR name LIKE '%CtxSynchronize%'
        OR name LIKE '%EventSynchronize%'
        OR name IN ('cudaMemcpy', 'cudaMemcpy2D', 'hipMemcpy', 'hipMemcpyWithStream')
        OR name LIKE 'cudaMemcpy\_v%' ESCAPE '\'
        OR name LIKE 'cuMemcpyDtoH\_v%' ESCAPE '\'
        AS waits
FROM host_events
WHERE class = 'host_runtime'
