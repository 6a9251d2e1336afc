-- @view     _memory_levels
-- @summary  Bytes that are allocated, active, requested and reserved on each device, before the
--           first event of a recording (place 0) and after each of them.
-- @requires memory_events memory_blocks memory_segments counters _memory_moves
-- @caveat   A snapshot is played back from its end, because its events are a ring and its blocks
--           are what was left. Allocated and active are the bytes of blocks, as the allocator
--           counts them. A timeline says the bytes of tensors. Samples of Kineto without totals
--           (before 2022) count from an unknown start, and their levels are NULL.
-- @source   formats_kineto section 11
WITH
    moves AS (
        SELECT
            trace, rank, source_id, device, event_id, ts_ns, 'snapshot' AS form,
            CASE action WHEN 'alloc' THEN block_bytes WHEN 'free_requested' THEN -block_bytes ELSE 0 END
                AS allocated,
            CASE action WHEN 'alloc' THEN block_bytes WHEN 'free_completed' THEN -block_bytes ELSE 0 END
                AS active,
            CASE action WHEN 'alloc' THEN size WHEN 'free_requested' THEN -size ELSE 0 END AS requested,
            CASE
                WHEN action IN ('segment_alloc', 'segment_map') THEN size
                WHEN action IN ('segment_free', 'segment_unmap') THEN -size
                ELSE 0
            END AS reserved,
            false AS before_start
        FROM _memory_moves
        UNION ALL
        SELECT
            trace, rank, source_id, device, event_id, ts_ns, form, size, NULL, NULL, NULL,
            -- What was there before the timeline began is no change of it.
            action = 'preexisting'
        FROM memory_events
        WHERE form = 'timeline'
    ),

    live AS (
        SELECT
            trace, source_id, device,
            sum(CASE WHEN state = 'active_allocated' THEN size END) AS allocated,
            sum(CASE WHEN state LIKE 'active%' THEN size END) AS active,
            -- Unknown as a whole where it is unknown of any block.
            CASE
                WHEN count(*) FILTER (WHERE state = 'active_allocated' AND requested_size IS NULL) = 0
                    THEN coalesce(sum(CASE WHEN state = 'active_allocated' THEN requested_size END), 0)
            END AS requested
        FROM memory_blocks
        GROUP BY trace, source_id, device
    ),

    held AS (
        SELECT trace, rank, source_id, device, sum(total_size) AS reserved
        FROM memory_segments
        GROUP BY trace, rank, source_id, device
    ),

    moved AS (
        SELECT
            trace, rank, source_id, device, form,
            sum(allocated) AS allocated,
            sum(active) AS active,
            sum(requested) AS requested,
            sum(reserved) AS reserved,
            sum(CASE WHEN before_start THEN allocated ELSE 0 END) AS before_start
        FROM moves
        GROUP BY trace, rank, source_id, device, form
    ),

    -- A device without an event stayed as it was left, where its file has events of others.
    changes AS (
        SELECT
            trace, rank, source_id, device, form, allocated, active, requested, reserved,
            before_start
        FROM moved
        UNION ALL
        SELECT h.trace, h.rank, h.source_id, h.device, 'snapshot', 0, 0, 0, 0, NULL
        FROM held AS h
        SEMI JOIN moved AS f ON f.trace = h.trace AND f.source_id = h.source_id
        ANTI JOIN moved AS m
            ON m.trace = h.trace AND m.source_id = h.source_id AND m.device = h.device
    ),

    -- Where each device of a recording starts.
    starts AS (
        SELECT
            c.trace, c.rank, c.source_id, c.device, c.form,
            CASE
                WHEN c.form = 'timeline' THEN c.before_start
                ELSE coalesce(l.allocated, 0) - c.allocated
            END AS allocated,
            CASE WHEN c.form = 'snapshot' THEN coalesce(l.active, 0) - c.active END AS active,
            -- Without a block nothing is in use; of blocks that do not say it, it is unknown.
            CASE
                WHEN c.form = 'snapshot' AND l.trace IS NULL THEN -c.requested
                WHEN c.form = 'snapshot' THEN l.requested - c.requested
            END AS requested,
            CASE WHEN c.form = 'snapshot' THEN coalesce(h.reserved, 0) - c.reserved END AS reserved
        FROM changes AS c
        LEFT JOIN live AS l
            ON l.trace = c.trace
            AND l.source_id = c.source_id
            AND l.device IS NOT DISTINCT FROM c.device
        LEFT JOIN held AS h
            ON h.trace = c.trace
            AND h.source_id = c.source_id
            AND h.device IS NOT DISTINCT FROM c.device
    ),

    played AS (
        SELECT
            m.trace, m.rank, m.source_id, m.device, m.form, m.event_id, m.ts_ns,
            s.allocated + sum(m.allocated) OVER so_far AS allocated,
            s.active + sum(m.active) OVER so_far AS active,
            s.requested + sum(m.requested) OVER so_far AS requested,
            s.reserved + sum(m.reserved) OVER so_far AS reserved,
            sum(m.allocated) OVER so_far AS above_start,
            row_number() OVER so_far AS place
        FROM moves AS m
        INNER JOIN starts AS s
            ON s.trace = m.trace
            AND s.source_id = m.source_id
            AND s.device IS NOT DISTINCT FROM m.device
        WHERE NOT m.before_start
        WINDOW so_far AS (
            PARTITION BY m.trace, m.source_id, m.device
            ORDER BY m.event_id
            ROWS UNBOUNDED PRECEDING
        )
    ),

    -- Counters of a device of its own; the memory of the host has none.
    samples AS (
        SELECT
            trace, rank, device, ts_ns,
            max(CASE WHEN name = 'memory.total_allocated' THEN value END) AS allocated,
            max(CASE WHEN name = 'memory.total_reserved' THEN value END) AS reserved,
            sum(CASE WHEN name = 'memory.bytes' THEN value ELSE 0 END) AS change
        FROM counters
        WHERE name IN ('memory.bytes', 'memory.total_allocated', 'memory.total_reserved')
            AND device IS NOT NULL
        GROUP BY trace, rank, device, ts_ns
    )

SELECT
    trace, rank, source_id, device, form AS method, CAST(NULL AS BIGINT) AS event_id, 0 AS place,
    CAST(NULL AS BIGINT) AS ts_ns, TRY_CAST(allocated AS BIGINT) AS allocated_bytes,
    TRY_CAST(active AS BIGINT) AS active_bytes, TRY_CAST(requested AS BIGINT) AS requested_bytes,
    TRY_CAST(reserved AS BIGINT) AS reserved_bytes, CAST(0 AS BIGINT) AS above_start_bytes
FROM starts
UNION ALL
SELECT
    trace, rank, source_id, device, form, event_id, place, ts_ns, TRY_CAST(allocated AS BIGINT),
    TRY_CAST(active AS BIGINT), TRY_CAST(requested AS BIGINT), TRY_CAST(reserved AS BIGINT),
    TRY_CAST(above_start AS BIGINT)
FROM played
UNION ALL
SELECT
    trace, rank, NULL, device, 'counters', NULL,
    row_number() OVER (PARTITION BY trace, rank, device ORDER BY ts_ns),
    ts_ns, TRY_CAST(allocated AS BIGINT), NULL, NULL, TRY_CAST(reserved AS BIGINT),
    TRY_CAST(sum(change) OVER (PARTITION BY trace, rank, device ORDER BY ts_ns) AS BIGINT)
FROM samples
