-- @view     _compute_spans
-- @summary  Disjoint spans of computation of each device, and how long it computed before each of
--           them: what lies up to one instant, less what lies up to another, is between them.
-- @partition rank
-- @requires busy_intervals
-- @caveat   device_key is -1 for no device.
SELECT
    trace, rank, coalesce(device, -1) AS device_key, start_ns, end_ns,
    sum(end_ns - start_ns) OVER (
        PARTITION BY trace, rank, device ORDER BY start_ns
    ) - (end_ns - start_ns) AS before_ns
FROM busy_intervals
WHERE class = 'compute'
