-- @view     step_overlap_mean
-- @summary  What the devices do during each step, mean over the ranks.
-- @requires step_overlap
-- @null     the steps have no durations
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   step BIGINT dim - | Step.
-- @column   num_ranks BIGINT value count | Ranks with a device in this step.
-- @column   step_time_ms DOUBLE value ms lower | Duration of the step.
-- @column   compute_ms DOUBLE value ms lower | Union of compute within it.
-- @column   comm_ms DOUBLE value ms lower | Union of communication.
-- @column   overlap_ms DOUBLE value ms | Time of both at once.
-- @column   exposed_comm_ms DOUBLE value ms lower | Communication without compute.
-- @column   overlap_ratio DOUBLE value ratio higher | Mean of overlap_ms / comm_ms over the ranks
--           that communicate in this step.
-- @caveat   Where a rank counts a step more than once, each of them is in the mean.
-- @source   metrics 2.E, over the ranks
SELECT
    trace, step,
    count(DISTINCT rank) AS num_ranks,
    avg(step_time_ms ORDER BY step_time_ms) AS step_time_ms,
    avg(compute_ms ORDER BY compute_ms) AS compute_ms,
    avg(comm_ms ORDER BY comm_ms) AS comm_ms,
    avg(overlap_ms ORDER BY overlap_ms) AS overlap_ms,
    avg(exposed_comm_ms ORDER BY exposed_comm_ms) AS exposed_comm_ms,
    avg(overlap_ratio ORDER BY overlap_ratio) AS overlap_ratio
FROM step_overlap
GROUP BY trace, step
ORDER BY trace, step
