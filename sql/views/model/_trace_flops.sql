-- @view     _trace_flops
-- @summary  Floating-point operations that the device events of a trace state, and the time that
--           the trace takes on its devices: the longest window of a rank.
-- @requires _rank_flops
-- @reads    _windows
SELECT f.trace, CAST(sum(f.flops) AS DOUBLE) AS flops, any_value(w.wall_time_s) AS wall_time_s
FROM _rank_flops AS f
LEFT JOIN (
    SELECT trace, max(end_ns - start_ns) / 1e9 AS wall_time_s
    FROM _windows
    WHERE basis = 'device'
    GROUP BY trace
) AS w ON w.trace = f.trace
GROUP BY f.trace
