-- @view     copies
-- @summary  Copies on the devices, with their direction and rate.
-- @partition rank
-- @requires device_events
-- @null     the trace has no copies
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   event_id BIGINT dim - | Number of the event in the trace.
-- @column   name VARCHAR value - | Name as recorded.
-- @column   direction VARCHAR value - | h2d, d2h, d2d, p2p, h2h; NULL where nothing says one.
-- @column   ts_ns BIGINT value ns | Start.
-- @column   dur_ns BIGINT value ns | Duration.
-- @column   device BIGINT value - | Accelerator.
-- @column   stream BIGINT value - | Stream.
-- @column   bytes BIGINT value - | Bytes copied.
-- @column   rate_gb_per_s DOUBLE value gb_per_s | bytes / dur_ns.
WITH
    named AS (
        SELECT
            trace, rank, event_id, name, ts_ns, dur_ns, device, stream,
            CASE WHEN bytes >= 0 THEN bytes END AS bytes,
            -- XLA and MTIA say it of a copy of their own, and spell it in their own ways
            -- (`MemcpyH2D`, `DEVICE_TO_HOST`).
            CASE
                WHEN source = 'xla'
                    THEN replace(concat_ws(' ', name, json_extract_string(args, '$.direction')), '2', 'to')
                WHEN category = 'mtia_ccp_events' THEN json_extract_string(args, '$.direction')
                ELSE name
            END AS words
        FROM device_events
        WHERE class = 'copy'
    )

SELECT
    trace, rank, event_id, name,
    CASE
        WHEN words LIKE '%HtoD%' OR words LIKE '%HostToDevice%' OR words = 'HOST_TO_DEVICE' THEN 'h2d'
        WHEN words LIKE '%DtoH%' OR words LIKE '%DeviceToHost%' OR words = 'DEVICE_TO_HOST' THEN 'd2h'
        WHEN words LIKE '%PtoP%' OR words LIKE '%PeerToPeer%' THEN 'p2p'
        WHEN words LIKE '%DtoD%' OR words LIKE '%DeviceToDevice%' OR words = 'DEVICE_TO_DEVICE' THEN 'd2d'
        WHEN words LIKE '%HtoH%' OR words LIKE '%HostToHost%' THEN 'h2h'
    END AS direction,
    ts_ns, dur_ns, device, stream, bytes,
    CAST(bytes AS DOUBLE) / nullif(dur_ns, 0) AS rate_gb_per_s
FROM named
