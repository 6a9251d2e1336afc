-- @view     _busy
-- @summary  Busy spans of each rank and device as lists, by class and together.
-- @partition rank
-- @requires busy_intervals
SELECT
    trace,
    rank,
    device,
    array_agg({start_ns: start_ns, end_ns: end_ns} ORDER BY start_ns, end_ns)
        FILTER (WHERE class = 'comm') AS comm,
    array_agg({start_ns: start_ns, end_ns: end_ns} ORDER BY start_ns, end_ns)
        FILTER (WHERE class = 'compute') AS compute,
    array_agg({start_ns: start_ns, end_ns: end_ns} ORDER BY start_ns, end_ns) AS busy
FROM busy_intervals
GROUP BY trace, rank, device
