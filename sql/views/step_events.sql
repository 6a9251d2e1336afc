-- @view     step_events
-- @summary  Device events with the step that launched them.
-- @requires device_events launches steps
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   event_id BIGINT dim - | Number of the event in the trace.
-- @column   class VARCHAR value - | Class of the event.
-- @column   name VARCHAR value - | Name as recorded.
-- @column   ts_ns BIGINT value ns | Start.
-- @column   dur_ns BIGINT value ns | Duration.
-- @column   device BIGINT value - | Accelerator.
-- @column   stream BIGINT value - | Stream.
-- @column   step BIGINT value - | Step whose host interval holds the launch, on any thread; NULL outside any or without a launch.
WITH
    linked AS (
        SELECT l.trace, d.source, l.rank, l.event_id, l.launch_ts_ns
        FROM launches AS l
        INNER JOIN device_events AS d ON d.trace = l.trace AND d.event_id = l.event_id
    ),

    stepped AS (
        SELECT
            l.trace, l.rank, l.event_id,
            CASE WHEN l.launch_ts_ns < s.ts_ns + s.dur_ns THEN s.step END AS step
        FROM linked AS l
        ASOF INNER JOIN steps AS s
            ON s.trace = l.trace
            AND s.source = l.source
            AND s.rank = l.rank
            AND s.ts_ns <= l.launch_ts_ns
    )

SELECT
    d.trace, d.rank, d.event_id, d.class, d.name, d.ts_ns, d.dur_ns, d.device, d.stream, s.step
FROM device_events AS d
LEFT JOIN stepped AS s ON s.trace = d.trace AND s.event_id = d.event_id
