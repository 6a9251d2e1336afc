-- @view     step_events
-- @summary  Device events with the step that launched them.
-- @partition rank
-- @requires device_events
-- @reads    launches metadata steps
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   event_id BIGINT dim - | Number of the event in the trace.
-- @column   class VARCHAR value - | Class of the event.
-- @column   name VARCHAR value - | Name as recorded.
-- @column   ts_ns BIGINT value ns | Start.
-- @column   dur_ns BIGINT value ns | Duration.
-- @column   device BIGINT value - | Accelerator.
-- @column   stream BIGINT value - | Stream.
-- @column   step BIGINT value - | Step whose host interval holds the launch, on any thread; NULL
--           outside any, and without a launch (where XLA does not say the launch, the start
--           counts).
WITH
    -- Ranks whose steps the profiler of XLA lists on the clock of the device.
    stepped_devices AS (
        SELECT DISTINCT trace, rank
        FROM metadata
        WHERE key = 'step_marker'
            AND json_valid(value)
            AND json_extract_string(value, '$.marker') = 'Steps'
    ),

    linked AS (
        SELECT l.trace, d.source, l.rank, l.event_id, l.launch_ts_ns
        FROM launches AS l
        INNER JOIN device_events AS d ON d.trace = l.trace AND d.event_id = l.event_id
        WHERE d.source <> 'xla'
        UNION ALL
        SELECT
            d.trace, d.source, d.rank, d.event_id,
            coalesce(CASE WHEN s.rank IS NULL THEN l.launch_ts_ns END, d.ts_ns)
        FROM device_events AS d
        LEFT JOIN launches AS l ON l.trace = d.trace AND l.event_id = d.event_id
        LEFT JOIN stepped_devices AS s ON s.trace = d.trace AND s.rank = d.rank
        WHERE d.source = 'xla'
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
