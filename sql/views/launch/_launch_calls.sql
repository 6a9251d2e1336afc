-- @view     _launch_calls
-- @summary  Device events that a call on the host launched, with the call: when it began and
--           returned, and its thread.
-- @partition rank
-- @requires device_events launches
-- @reads    host_events
-- @caveat   A call without a duration returns when it begins. XLA runs whole programs:
--           what it calls a launch is no launch of an event, and not here.
WITH
    linked AS (
        SELECT
            d.trace, d.source, d.rank, d.device, d.stream, d.event_id, d.class,
            d.ts_ns, d.dur_ns,
            l.runtime_event_id, l.launch_ts_ns, l.launch_delay_ns, l.pid, l.tid
        FROM device_events AS d
        INNER JOIN launches AS l ON l.trace = d.trace AND l.event_id = d.event_id
        WHERE d.class IN ('comm', 'compute', 'copy', 'set', 'graph')
            AND d.source <> 'xla'
            AND d.dur_ns IS NOT NULL
    ),

    calls AS (
        SELECT trace, event_id, dur_ns
        FROM host_events
        WHERE class = 'host_runtime'
    )

SELECT
    l.trace, l.source, l.rank, l.device, l.stream, l.event_id, l.class, l.ts_ns, l.dur_ns,
    l.runtime_event_id, l.launch_ts_ns, l.launch_delay_ns, l.pid, l.tid,
    l.launch_ts_ns + coalesce(c.dur_ns, 0) AS launched_ns,
    c.dur_ns AS call_ns
FROM linked AS l
LEFT JOIN calls AS c ON c.trace = l.trace AND c.event_id = l.runtime_event_id
