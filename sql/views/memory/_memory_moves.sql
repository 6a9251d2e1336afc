-- @view     _memory_moves
-- @summary  Each event of a memory snapshot, with the bytes of its block and those that were asked
--           for.
-- @requires memory_events memory_blocks
-- @caveat   An event says what was asked for. A block that is there at the end says its own size;
--           of any other it is what was asked for, rounded up to 512 bytes as the allocator does.
--           Below 1 MiB, what is left of a free block is not split off but given too: no event says
--           so.
-- @source   formats_kineto section 11; PyTorch c10/cuda/CUDACachingAllocator.cpp (round_size,
--           should_split)
WITH
    -- An allocation and its frees are one life of an address, numbered by the allocation.
    lives AS (
        SELECT
            trace, rank, source_id, device, event_id, ts_ns, action, addr, size, stack_id,
            max(CASE WHEN action = 'alloc' THEN event_id END) OVER (
                PARTITION BY trace, source_id, device, addr ORDER BY event_id
            ) AS life,
            max(CASE WHEN action = 'alloc' THEN event_id END) OVER (
                PARTITION BY trace, source_id, device, addr
            ) AS last_life
        FROM memory_events
        WHERE form = 'snapshot'
    ),

    kept AS (
        SELECT trace, source_id, device, address, max(size) AS block_bytes
        FROM memory_blocks
        WHERE state LIKE 'active%'
        GROUP BY trace, source_id, device, address
    )

SELECT
    l.trace, l.rank, l.source_id, l.device, l.event_id, l.ts_ns, l.action, l.addr, l.size, l.stack_id,
    coalesce(
        CASE WHEN l.life IS NOT DISTINCT FROM l.last_life THEN k.block_bytes END,
        CASE WHEN l.size <= 512 THEN 512 ELSE (CAST(l.size AS HUGEINT) + 511) // 512 * 512 END
    ) AS block_bytes
FROM lives AS l
LEFT JOIN kept AS k
    ON k.trace = l.trace
    AND k.source_id = l.source_id
    AND k.device = l.device
    AND k.address = l.addr
    AND l.action IN ('alloc', 'free_requested', 'free_completed')
