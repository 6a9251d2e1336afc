-- @view     _rank_flops
-- @summary  Floating-point operations that the device events of a rank state, and how many events
--           do.
-- @materialize session
-- @requires device_events
SELECT trace, rank, sum(flops) AS flops, count(*) AS event_count
FROM device_events
WHERE flops IS NOT NULL
GROUP BY trace, rank
