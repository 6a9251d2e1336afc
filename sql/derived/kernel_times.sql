-- @derived  kernel_times
-- @partition rank
-- @summary  Kernels of each rank by name and by the operator that launched them.
-- @requires device_events
-- @reads    host_events launches
-- @source   metrics 2.F kernel_breakdown
SELECT
    d.source, d.rank, d.device, d.class, d.name, h.name AS op_name,
    count(*) AS events,
    CAST(least(sum(d.dur_ns), 9223372036854775807) AS BIGINT) AS dur_ns,
    min(d.dur_ns) AS min_dur_ns,
    max(d.dur_ns) AS max_dur_ns
FROM device_events AS d
LEFT JOIN launches AS l ON l.event_id = d.event_id
-- An operator is one of the host, or a range of NVTX.
-- Most events of the host are calls of the runtime.
LEFT JOIN (
    SELECT event_id, name FROM host_events WHERE class IN ('host_op', 'host_annotation')
) AS h ON h.event_id = l.op_event_id
WHERE d.class IN ('comm', 'compute') AND d.dur_ns IS NOT NULL
GROUP BY d.source, d.rank, d.device, d.class, d.name, h.name
ORDER BY d.source, d.rank, d.device, d.class, d.name, h.name
