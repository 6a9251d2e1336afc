-- @view     _memory_allocations
-- @summary  Life of each allocation that a snapshot shows: the events between which its memory was
--           in use (NULL: from before the first event; to after the last one).
-- @requires _memory_moves memory_blocks
-- @caveat   Of what was allocated before the first event and freed since, the call stack is not
--           known.
WITH
    moves AS (
        SELECT trace, rank, source_id, device, event_id, action, addr, block_bytes, stack_id
        FROM _memory_moves
        WHERE action IN ('alloc', 'free_requested')
    ),

    in_order AS (
        SELECT
            trace, rank, source_id, device, event_id, action, addr, block_bytes, stack_id,
            lag(action) OVER of_address AS before_action,
            lead(event_id) OVER of_address AS next_event_id
        FROM moves
        WINDOW of_address AS (PARTITION BY trace, source_id, device, addr ORDER BY event_id)
    ),

    last_moves AS (
        SELECT trace, source_id, device, addr, action
        FROM in_order
        WHERE next_event_id IS NULL
    )

SELECT
    trace, rank, source_id, device, addr AS address, block_bytes, stack_id, event_id AS first_event_id,
    next_event_id AS last_event_id
FROM in_order
WHERE action = 'alloc'
UNION ALL
SELECT trace, rank, source_id, device, addr, block_bytes, NULL, NULL, event_id
FROM in_order
WHERE action = 'free_requested' AND before_action IS DISTINCT FROM 'alloc'
UNION ALL
SELECT
    b.trace, b.rank, b.source_id, b.device, b.address, b.size, b.stack_id, NULL, NULL
FROM memory_blocks AS b
LEFT JOIN last_moves AS m
    ON m.trace = b.trace
    AND m.source_id = b.source_id
    AND m.device = b.device
    AND m.addr = b.address
WHERE b.state = 'active_allocated' AND m.action IS DISTINCT FROM 'alloc'
