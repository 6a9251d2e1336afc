-- @derived  _host_calls
-- @partition rank
-- @summary  Calls of gloo on ranks without a device: its own annotations, the real spans on their
--           threads.
-- @requires host_events
-- @reads    device_events ranks
-- @check    (SELECT count(*) FROM host_events WHERE class = 'host_annotation' AND name LIKE
--           'gloo:%') > 0
--           | gloo does not communicate
-- @column   source VARCHAR value - | As in collectives.
-- @column   rank BIGINT value - | As in collectives.
-- @column   event_id BIGINT value - | As in collectives.
-- @column   ts_ns BIGINT value ns | As in collectives.
-- @column   dur_ns BIGINT value ns | As in collectives.
-- @column   name VARCHAR value - | The annotation.
-- @column   args VARCHAR value - | Its arguments, as JSON.
-- @column   comm_op_event_id BIGINT value - | The operator of c10d around it.
-- @source   formats_kineto sections 4 and 7
WITH
    -- A join with nothing reads nothing: host_events is most of a trace.
    deviceless AS (
        SELECT source, rank
        FROM ranks
        EXCEPT
        SELECT source, rank
        FROM device_events
        WHERE class IN ('comm', 'compute', 'copy', 'set', 'graph')
    ),

    -- On a rank without any device, gloo's own annotations are the calls: the real span on its
    -- thread.
    gloo AS (
        SELECT
            h.source, h.rank, h.event_id, h.ts_ns, h.dur_ns, h.name, h.args,
            TRY_CAST(json_extract_string(h.args, '$."Record function id"') AS BIGINT) AS record_id
        FROM host_events AS h
        INNER JOIN deviceless AS d ON d.source = h.source AND d.rank = h.rank
        WHERE h.class = 'host_annotation' AND h.name LIKE 'gloo:%' AND h.dur_ns IS NOT NULL
    ),

    operators AS (
        SELECT
            o.rank, o.event_id,
            TRY_CAST(json_extract_string(o.args, '$."Record function id"') AS BIGINT) AS record_id
        FROM host_events AS o
        INNER JOIN (SELECT DISTINCT rank FROM gloo) AS g ON g.rank = o.rank
        WHERE o.name LIKE 'c10d::%'
    )

SELECT
    h.source, h.rank, h.event_id, h.ts_ns, h.dur_ns, h.name, h.args,
    o.event_id AS comm_op_event_id
FROM gloo AS h
LEFT JOIN operators AS o
    ON o.rank = h.rank AND o.record_id > 0 AND h.record_id = o.record_id + 1
QUALIFY row_number() OVER (PARTITION BY h.event_id ORDER BY o.event_id) = 1
