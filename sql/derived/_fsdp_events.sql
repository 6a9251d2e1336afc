-- @derived  _fsdp_events
-- @partition rank
-- @summary  Device events that a range of FSDP launched, with the innermost such range.
-- @requires _fsdp_ranges
-- @reads    _annotations _collective_events _launched
-- @column   source VARCHAR value - | Profiler.
-- @column   rank BIGINT value - | Global rank.
-- @column   event_id BIGINT value - | The event.
-- @column   device BIGINT value - | Accelerator.
-- @column   class VARCHAR value - | Class.
-- @column   collective VARCHAR value - | Kind of a communication.
-- @column   start_ns BIGINT value ns | Start.
-- @column   end_ns BIGINT value ns | End.
-- @column   step BIGINT value - | Step that launched it.
-- @column   operation VARCHAR value - | Operation of FSDP.
-- @column   layer VARCHAR value - | Module; NULL for the root.
-- @caveat   Without devices (gloo), a communication on the host is of the range of the main thread
--           in which it starts.
-- @source   metrics 2.H
WITH
    kinds AS (
        SELECT event_id, collective
        FROM _collective_events
    ),

    without_device AS (
        SELECT
            c.source, c.rank, c.event_id, c.ts_ns AS start_ns, c.ts_ns + c.dur_ns AS end_ns,
            c.collective, f.step, f.operation, f.layer
        FROM _collective_events AS c
        INNER JOIN _fsdp_ranges AS f
            ON f.source = c.source AND f.rank = c.rank
            AND f.ts_ns <= c.ts_ns AND f.end_ns > c.ts_ns
        WHERE c.device IS NULL
        QUALIFY row_number() OVER (PARTITION BY c.event_id ORDER BY f.ts_ns DESC, f.end_ns, f.event_id) = 1
    )

SELECT
    l.source, l.rank, l.event_id, l.device, l.class, k.collective, l.start_ns, l.end_ns, l.step,
    f.operation, f.layer
FROM _launched AS l
INNER JOIN _annotations AS r ON r.event_id = l.range_event_id
INNER JOIN _fsdp_ranges AS f ON f.event_id = r.fsdp_event_id
LEFT JOIN kinds AS k ON k.event_id = l.event_id
UNION ALL
SELECT
    source, rank, event_id, CAST(NULL AS BIGINT), 'comm', collective, start_ns, end_ns, step, operation, layer
FROM without_device
