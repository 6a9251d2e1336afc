-- @derived  _device_calls
-- @partition rank
-- @summary  Communication events on the devices of each rank, with what they and their launches
--           say.
-- @requires device_events
-- @reads    comm_args launches metadata
-- @check    (SELECT count(*) FROM device_events WHERE class = 'comm') > 0
--           | nothing communicates on a device
-- @column   source VARCHAR value - | As in collectives.
-- @column   rank BIGINT value - | As in collectives.
-- @column   event_id BIGINT value - | As in collectives.
-- @column   device BIGINT value - | As in collectives.
-- @column   stream BIGINT value - | As in collectives.
-- @column   ts_ns BIGINT value ns | As in collectives.
-- @column   dur_ns BIGINT value ns | As in collectives.
-- @column   name VARCHAR value - | Name of the kernel or operation.
-- @column   step_ts_ns BIGINT value ns | The time that says the step.
-- @column   operation VARCHAR value - | The same operation of the same program (XLA).
-- @column   stall_ns BIGINT value ns | As in collectives.
-- @column   record_event_id BIGINT value - | As in launches.
-- @column   annotation_event_id BIGINT value - | As in launches.
-- @column   comm_op_event_id BIGINT value - | As in launches.
-- @column   op_event_id BIGINT value - | As in launches.
-- @column   own_word VARCHAR value - | What the event itself calls the collective.
-- @column   nvtx_source VARCHAR value - | Who says so, where it is not the profiler.
-- @source   formats_kineto sections 4 and 7; metrics 1.3
WITH
    stepped_devices AS (
        SELECT DISTINCT rank
        FROM metadata
        WHERE key = 'step_marker'
            AND json_valid(value)
            AND json_extract_string(value, '$.marker') = 'Steps'
    )

SELECT
    d.source, d.rank, d.event_id, d.device, d.stream, d.ts_ns, d.dur_ns, d.name,
    -- The profiler of XLA may list the steps of a device, on its clock; and it may not say
    -- what launched an operation.
    CASE
        WHEN d.source = 'xla' THEN coalesce(
            CASE WHEN d.rank NOT IN (SELECT rank FROM stepped_devices) THEN l.launch_ts_ns END,
            d.ts_ns
        )
        ELSE l.launch_ts_ns
    END AS step_ts_ns,
    -- The same operation of the same program; its number may differ between hosts.
    CASE WHEN d.source = 'xla' AND d.hlo_op IS NOT NULL
        THEN concat_ws('/', regexp_replace(d.hlo_module, '\(\d+\)$', ''), d.hlo_op)
    END AS operation,
    own.stall_ns,
    l.record_event_id, l.annotation_event_id, l.comm_op_event_id, l.op_event_id,
    own.collective_name AS own_word,
    own.coll_source AS nvtx_source
FROM device_events AS d
LEFT JOIN launches AS l ON l.event_id = d.event_id
LEFT JOIN comm_args AS own ON own.event_id = d.event_id
WHERE d.class = 'comm' AND d.rank IS NOT NULL
