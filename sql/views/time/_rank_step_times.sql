-- @view     _rank_step_times
-- @summary  Mean step time of each rank, over its steps that count.
-- @requires _step_times
SELECT
    trace, rank, count(*) AS step_count, sum(time_ns) AS steps_ns, avg(time_ns) / 1e9 AS mean_s
FROM _step_times
GROUP BY trace, rank
