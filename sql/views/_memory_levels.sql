-- @view     _memory_levels
-- @summary  Bytes that are allocated, active and reserved on each device, before the first event of a recording (place 0) and after each of them.
-- @requires memory_events memory_blocks memory_segments counters
-- @caveat   A snapshot is played back from its end, because its events are a ring and its blocks are what was left: sizes are those that were asked for. Samples of Kineto are rounded up by the allocator; without totals (before 2022) they count from an unknown start, and their levels are NULL.
-- @source   formats_kineto section 11
WITH
    moves AS (
        SELECT
            trace, rank, source_id, device, event_id, ts_ns, form,
            CASE
                WHEN action = 'alloc' OR form = 'timeline' THEN size
                WHEN action = 'free_requested' THEN -size
                ELSE 0
            END AS allocated,
            CASE
                WHEN action = 'alloc' OR form = 'timeline' THEN size
                WHEN action = 'free_completed' THEN -size
                ELSE 0
            END AS active,
            CASE
                WHEN action IN ('segment_alloc', 'segment_map') THEN size
                WHEN action IN ('segment_free', 'segment_unmap') THEN -size
                ELSE 0
            END AS reserved,
            -- What was there before the timeline began is no change of it.
            action = 'preexisting' AS before_start
        FROM memory_events
        WHERE form IN ('snapshot', 'timeline')
    ),

    live AS (
        SELECT
            trace, rank, source_id, device,
            sum(CASE WHEN state = 'active_allocated' THEN coalesce(requested_size, size) END) AS allocated,
            sum(CASE WHEN state LIKE 'active%' THEN coalesce(requested_size, size) END) AS active
        FROM memory_blocks
        GROUP BY trace, rank, source_id, device
    ),

    held AS (
        SELECT trace, rank, source_id, device, sum(total_size) AS reserved
        FROM memory_segments
        GROUP BY trace, rank, source_id, device
    ),

    -- Where each device of a recording starts.
    sums AS (
        SELECT
            m.trace, m.rank, m.source_id, m.device, m.form,
            CASE
                WHEN m.form = 'timeline' THEN coalesce(sum(m.allocated) FILTER (WHERE m.before_start), 0)
                ELSE coalesce(any_value(l.allocated), 0) - sum(m.allocated)
            END AS allocated,
            CASE
                WHEN m.form = 'timeline' THEN NULL
                ELSE coalesce(any_value(l.active), 0) - sum(m.active)
            END AS active,
            CASE
                WHEN m.form = 'timeline' THEN NULL
                ELSE coalesce(any_value(h.reserved), 0) - sum(m.reserved)
            END AS reserved
        FROM moves AS m
        LEFT JOIN live AS l
            ON l.trace = m.trace
            AND l.rank IS NOT DISTINCT FROM m.rank
            AND l.source_id = m.source_id
            AND l.device IS NOT DISTINCT FROM m.device
        LEFT JOIN held AS h
            ON h.trace = m.trace
            AND h.rank IS NOT DISTINCT FROM m.rank
            AND h.source_id = m.source_id
            AND h.device IS NOT DISTINCT FROM m.device
        GROUP BY m.trace, m.rank, m.source_id, m.device, m.form
    ),

    played AS (
        SELECT
            m.trace, m.rank, m.source_id, m.device, m.form, m.event_id, m.ts_ns,
            s.allocated + sum(m.allocated) OVER so_far AS allocated,
            s.active + CASE WHEN m.form = 'snapshot' THEN sum(m.active) OVER so_far END AS active,
            s.reserved + CASE WHEN m.form = 'snapshot' THEN sum(m.reserved) OVER so_far END AS reserved,
            sum(m.allocated) OVER so_far AS above_start,
            row_number() OVER so_far AS place
        FROM moves AS m
        INNER JOIN sums AS s
            ON s.trace = m.trace
            AND s.rank IS NOT DISTINCT FROM m.rank
            AND s.source_id = m.source_id
            AND s.device IS NOT DISTINCT FROM m.device
        WHERE NOT m.before_start
        WINDOW so_far AS (
            PARTITION BY m.trace, m.rank, m.source_id, m.device
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
    TRY_CAST(active AS BIGINT) AS active_bytes, TRY_CAST(reserved AS BIGINT) AS reserved_bytes,
    CAST(0 AS BIGINT) AS above_start_bytes
FROM sums
UNION ALL
SELECT
    trace, rank, source_id, device, form, event_id, place, ts_ns, TRY_CAST(allocated AS BIGINT),
    TRY_CAST(active AS BIGINT), TRY_CAST(reserved AS BIGINT), TRY_CAST(above_start AS BIGINT)
FROM played
UNION ALL
SELECT
    trace, rank, NULL, device, 'counters', NULL,
    row_number() OVER (PARTITION BY trace, rank, device ORDER BY ts_ns),
    ts_ns, TRY_CAST(allocated AS BIGINT), NULL, TRY_CAST(reserved AS BIGINT),
    TRY_CAST(sum(change) OVER (PARTITION BY trace, rank, device ORDER BY ts_ns) AS BIGINT)
FROM samples
