-- @view     _step_compute
-- @summary  Time in which each device of a rank computes for each step, by the events that the step
--           launched.
-- @materialize session
-- @partition rank
-- @requires step_events
SELECT
    trace, rank, step, device,
    interval_union_ns(array_agg({start_ns: ts_ns, end_ns: ts_ns + dur_ns})) AS union_ns
FROM step_events
WHERE class = 'compute' AND dur_ns IS NOT NULL AND step IS NOT NULL
GROUP BY trace, rank, step, device
