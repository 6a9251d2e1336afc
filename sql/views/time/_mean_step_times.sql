-- @view     _mean_step_times
-- @summary  Mean step time of each trace (that of avg_step_time): mean over the steps that count of
--           a rank, then over ranks; step_count is that of the rank with most.
-- @requires _rank_step_times
SELECT trace, avg(mean_s ORDER BY rank) AS step_s, max(step_count) AS step_count
FROM _rank_step_times
GROUP BY trace
