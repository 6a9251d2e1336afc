-- @view     _rank_flops
-- @summary  Floating-point operations that the device events of a rank state, and how many events
--           do.
-- @materialize session
-- @requires _device_counts
SELECT trace, rank, sum(flops) AS flops, TRY_CAST(sum(flops_events) AS BIGINT) AS event_count
FROM _device_counts
WHERE flops_events > 0 AND rank IS NOT NULL
GROUP BY trace, rank
