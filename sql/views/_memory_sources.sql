-- @view     _memory_sources
-- @summary  Whether anything in the trace tells of memory: rows of recordings, and samples of Kineto.
-- @requires memory_events memory_blocks counters
SELECT trace, 'events' AS what, count(*) AS row_count
FROM memory_events
GROUP BY trace
UNION ALL
SELECT trace, 'blocks', count(*)
FROM memory_blocks
GROUP BY trace
UNION ALL
SELECT trace, 'samples', count(*)
FROM counters
WHERE name IN ('memory.bytes', 'memory.total_allocated') AND device IS NOT NULL
GROUP BY trace
