-- @view     _traffic_sums
-- @summary  How long the compute of each rank takes, by the operations and the memory traffic that
--           an event states.
-- @materialize session
-- @partition rank
-- @requires device_events
SELECT trace, rank, flops, bytes_accessed, sum(dur_ns) AS dur_ns
FROM device_events
WHERE class = 'compute' AND dur_ns IS NOT NULL
GROUP BY trace, rank, flops, bytes_accessed
