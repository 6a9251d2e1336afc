-- @view     _category_sums
-- @summary  Device events of XLA on each rank by class, name and category of their operation.
-- @materialize session
-- @partition rank
-- @requires device_events
-- @caveat   timed_events have a duration, and dur_ns is of these.
SELECT
    trace, rank, class, name, hlo_category,
    count(dur_ns) AS timed_events,
    sum(dur_ns) AS dur_ns
FROM device_events
WHERE source = 'xla'
GROUP BY trace, rank, class, name, hlo_category
