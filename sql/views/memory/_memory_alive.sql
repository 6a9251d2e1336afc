-- @view     _memory_alive
-- @summary  Bytes in use by call stack when most was allocated on each device (moment peak), and
--           when an allocation failed (moment oom, the first 10 of a device).
-- @requires _memory_levels _memory_allocations memory_events
-- @caveat   Of what was allocated before the first event and freed since, the call stack is not
--           known: stack_id is NULL.
WITH
    peaks AS (
        SELECT trace, rank, source_id, device, coalesce(event_id, -1) AS event_id
        FROM _memory_levels
        WHERE method = 'snapshot'
        QUALIFY
            row_number() OVER (
                PARTITION BY trace, source_id, device ORDER BY allocated_bytes DESC, place
            ) = 1
    ),

    moments AS (
        SELECT trace, rank, source_id, device, event_id, 'peak' AS moment
        FROM peaks
        UNION ALL
        SELECT trace, rank, source_id, device, event_id, 'oom'
        FROM memory_events
        WHERE action = 'oom'
        -- Each moment is held against all allocations; who fails once, tries again and again.
        QUALIFY
            row_number() OVER (PARTITION BY trace, source_id, device ORDER BY event_id) <= 10
    )

SELECT
    m.trace, m.rank, m.source_id, m.device, m.moment, m.event_id, a.stack_id,
    TRY_CAST(sum(a.block_bytes) AS BIGINT) AS alive_bytes, count(*) AS allocation_count
FROM moments AS m
INNER JOIN _memory_allocations AS a
    ON a.trace = m.trace
    AND a.source_id = m.source_id
    AND a.device IS NOT DISTINCT FROM m.device
WHERE (a.first_event_id IS NULL OR a.first_event_id <= m.event_id)
    AND (a.last_event_id IS NULL OR a.last_event_id > m.event_id)
GROUP BY m.trace, m.rank, m.source_id, m.device, m.moment, m.event_id, a.stack_id
