-- @view     _memory_sources
-- @summary  What in the trace tells of memory: snapshots with their events, snapshots, timelines,
--           samples of Kineto of devices (with totals or without), and of the host.
-- @requires memory_events memory_segments counters
SELECT trace, CASE form WHEN 'snapshot' THEN 'events' ELSE 'timeline' END AS what, count(*) AS row_count
FROM memory_events
GROUP BY trace, form
UNION ALL
SELECT trace, 'snapshot', count(*)
FROM memory_segments
GROUP BY trace
UNION ALL
SELECT
    trace,
    CASE
        WHEN device IS NULL THEN 'host samples'
        WHEN name = 'memory.bytes' THEN 'changes'
        ELSE 'totals'
    END,
    count(*)
FROM counters
WHERE name IN ('memory.bytes', 'memory.total_allocated')
GROUP BY trace, device IS NULL, name
