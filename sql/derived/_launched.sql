-- @derived  _launched
-- @partition rank
-- @summary  Device events with the call that launched them: its time and thread, the step, and the
--           annotation around it.
-- @requires launches device_events
-- @reads    steps
-- @column   source VARCHAR value - | Profiler.
-- @column   rank BIGINT value - | Global rank.
-- @column   event_id BIGINT value - | The event.
-- @column   device BIGINT value - | Accelerator.
-- @column   class VARCHAR value - | Class.
-- @column   start_ns BIGINT value ns | Start on the device.
-- @column   end_ns BIGINT value ns | End on the device.
-- @column   launch_ts_ns BIGINT value ns | Start of the call.
-- @column   pid BIGINT value - | Process of the call.
-- @column   tid BIGINT value - | Thread of the call.
-- @column   range_event_id BIGINT value - | Innermost annotation around the call.
-- @column   step BIGINT value - | Step of the call.
-- @source   formats_kineto section 3: the launch is found by correlation, never by the time on the
--           device
WITH
    linked AS (
        SELECT
            d.source, d.rank, d.event_id, d.device, d.class,
            d.ts_ns AS start_ns,
            d.ts_ns + d.dur_ns + coalesce(d.ts_ps + d.dur_ps, 0) // 1000 AS end_ns,
            l.launch_ts_ns, l.pid, l.tid, l.range_event_id
        FROM launches AS l
        INNER JOIN device_events AS d ON d.event_id = l.event_id
        WHERE d.class IN ('comm', 'compute', 'copy', 'set', 'graph')
            AND d.dur_ns IS NOT NULL
            AND l.launch_ts_ns IS NOT NULL
    )

SELECT
    l.source, l.rank, l.event_id, l.device, l.class, l.start_ns, l.end_ns, l.launch_ts_ns, l.pid, l.tid,
    l.range_event_id,
    CASE WHEN l.launch_ts_ns < s.ts_ns + s.dur_ns THEN s.step END AS step
FROM linked AS l
ASOF LEFT JOIN steps AS s
    ON s.source = l.source
    AND s.rank = l.rank
    AND s.ts_ns <= l.launch_ts_ns
