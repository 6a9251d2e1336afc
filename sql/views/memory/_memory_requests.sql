-- @view     _memory_requests
-- @summary  Each allocation and free that the best recording of a trace's memory shows.
-- @requires _memory_recordings memory_events counters
WITH
    forms AS (
        SELECT DISTINCT trace, method
        FROM _memory_recordings
    ),

    moves AS (
        SELECT
            trace, rank, source_id, device, ts_ns, size, form AS method,
            CASE
                WHEN action IN ('alloc', 'create') THEN 'allocation'
                WHEN action IN ('free_completed', 'destroy') THEN 'free'
                WHEN action IN ('segment_alloc', 'segment_map') THEN 'segment'
            END AS kind
        FROM memory_events
        UNION ALL
        SELECT
            trace, rank, NULL, device, ts_ns, CAST(value AS BIGINT), 'counters',
            CASE WHEN value > 0 THEN 'allocation' WHEN value < 0 THEN 'free' END
        FROM counters
        WHERE name = 'memory.bytes' AND device IS NOT NULL
    )

SELECT m.trace, m.rank, m.source_id, m.device, m.ts_ns, abs(m.size) AS size, m.kind
FROM moves AS m
INNER JOIN forms AS f ON f.trace = m.trace AND f.method = m.method
WHERE m.kind IS NOT NULL
