-- @view     copies
-- @summary  Copies on the devices, with their direction and rate.
-- @requires device_events
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   event_id BIGINT dim - | Number of the event in the trace.
-- @column   name VARCHAR value - | Name as recorded.
-- @column   direction VARCHAR value - | h2d, d2h, d2d, p2p, h2h; NULL where the name says none.
-- @column   ts_ns BIGINT value ns | Start.
-- @column   dur_ns BIGINT value ns | Duration.
-- @column   device BIGINT value - | Accelerator.
-- @column   stream BIGINT value - | Stream.
-- @column   bytes BIGINT value - | Bytes copied.
-- @column   rate_gb_per_s DOUBLE value gb_per_s | bytes / dur_ns.
SELECT
    trace, rank, event_id, name,
    CASE
        WHEN name LIKE '%HtoD%' OR name LIKE '%HostToDevice%' THEN 'h2d'
        WHEN name LIKE '%DtoH%' OR name LIKE '%DeviceToHost%' THEN 'd2h'
        WHEN name LIKE '%PtoP%' OR name LIKE '%PeerToPeer%' THEN 'p2p'
        WHEN name LIKE '%DtoD%' OR name LIKE '%DeviceToDevice%' THEN 'd2d'
        WHEN name LIKE '%HtoH%' OR name LIKE '%HostToHost%' THEN 'h2h'
    END AS direction,
    ts_ns, dur_ns, device, stream, bytes,
    CAST(bytes AS DOUBLE) / nullif(dur_ns, 0) AS rate_gb_per_s
FROM device_events
WHERE class = 'copy'
