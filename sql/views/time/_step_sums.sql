-- @view     _step_sums
-- @summary  Device events of each rank by the step that launched them, by class and name: how many,
--           from when to when, and how long together.
-- @materialize session
-- @partition rank
-- @requires step_events
-- @caveat   step is NULL for what no step launched. Events without a duration do not count.
SELECT
    trace, rank, step, class, name, count(*) AS events, sum(dur_ns) AS dur_ns,
    min(ts_ns) AS start_ns, max(ts_ns + dur_ns) AS end_ns
FROM step_events
WHERE class IN ('comm', 'compute', 'copy', 'set', 'graph') AND dur_ns IS NOT NULL
GROUP BY trace, rank, step, class, name
