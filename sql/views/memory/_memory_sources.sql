-- @view     _memory_sources
-- @summary  What in the trace tells of memory: snapshots with their events, snapshots, timelines,
--           samples of Kineto of devices (with totals or without), and of the host.
-- @requires memory_events memory_segments counters
SELECT trace, CASE form WHEN 'snapshot' THEN 'events' ELSE 'timeline' END AS what
FROM memory_events
UNION
SELECT trace, 'snapshot'
FROM memory_segments
UNION
SELECT
    trace,
    CASE
        WHEN device IS NULL THEN 'host samples'
        WHEN name = 'memory.bytes' THEN 'changes'
        ELSE 'totals'
    END
FROM counters
WHERE name IN ('memory.bytes', 'memory.total_allocated')
