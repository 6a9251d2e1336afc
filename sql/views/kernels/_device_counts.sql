-- @view     _device_counts
-- @summary  Device events of each rank by profiler and class: how many there are, and what they
--           state in all.
-- @materialize session
-- @partition rank
-- @requires device_events
-- @caveat   nameless_events have no name, timed_events a duration, lasting_events one above 0,
--           sized_events bytes that they copy. shape_values are grids and blocks per
--           multiprocessor. flops are of flops_events; bytes_accessed and traffic_flops of
--           traffic_events, those that state their memory traffic.
SELECT
    trace, source, rank, class,
    count(*) AS events,
    count(*) FILTER (WHERE name IS NULL) AS nameless_events,
    count(dur_ns) AS timed_events,
    count(*) FILTER (WHERE dur_ns > 0) AS lasting_events,
    count(bytes) AS sized_events,
    count(grid_x) + count(blocks_per_sm) AS shape_values,
    count(flops) AS flops_events,
    sum(flops) AS flops,
    count(bytes_accessed) AS traffic_events,
    sum(bytes_accessed) AS bytes_accessed,
    sum(flops) FILTER (WHERE bytes_accessed IS NOT NULL) AS traffic_flops
FROM device_events
GROUP BY trace, source, rank, class
