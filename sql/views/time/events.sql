-- @view     events
-- @summary  Device and host events together: one row per slice or instant of the source.
-- @reads    device_events host_events
-- @null     the trace has no events, on devices or hosts
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   source VARCHAR dim - | Profiler.
-- @column   rank BIGINT dim - | Global rank.
-- @column   event_id BIGINT dim - | Number of the event in the trace.
-- @column   class VARCHAR value - | Class of the event.
-- @column   category VARCHAR value - | Category as recorded.
-- @column   name VARCHAR value - | Name as recorded.
-- @column   ts_ns BIGINT value ns | Start.
-- @column   dur_ns BIGINT value ns | Duration; NULL for an instant.
-- @column   pid BIGINT value - | Process, on the host.
-- @column   tid BIGINT value - | Thread, on the host.
-- @column   device BIGINT value - | Accelerator.
-- @column   stream BIGINT value - | Stream.
-- @column   correlation BIGINT value - | Ties a device event to its launch.
-- @column   external_id BIGINT value - | External id as recorded.
-- @column   args VARCHAR value - | JSON of the arguments without a column.
SELECT
    trace, source, rank, event_id, class, category, name, ts_ns, dur_ns,
    CAST(NULL AS BIGINT) AS pid, CAST(NULL AS BIGINT) AS tid,
    device, stream, correlation, external_id, args
FROM device_events
UNION ALL
SELECT
    trace, source, rank, event_id, class, category, name, ts_ns, dur_ns,
    pid, tid, device, stream, correlation, external_id, args
FROM host_events
