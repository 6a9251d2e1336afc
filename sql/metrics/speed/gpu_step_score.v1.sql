-- @metric   gpu_step_score
-- @version  1
-- @area     speed
-- @summary  One number of how few devices a job needs and how short its steps are, against a
--           reference.
-- @grain    trace
-- @requires steps
-- @reads    _mean_step_times _job_devices
-- @value    gpu_step_score
-- @null     the steps take no time
-- @param    g0 DOUBLE 16 | Devices of the reference.
-- @param    t0_s DOUBLE 0.44 | Step time of the reference in seconds.
-- @param    w DOUBLE 0.5 | Weight of the devices; the step time has 1 - w.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   gpu_step_score DOUBLE value score higher | w x g0 / devices + (1 - w) x t0_s /
--           step_time_s: 1 is the reference.
-- @column   devices BIGINT value - | Devices of the job: those of the card, else its ranks.
-- @column   step_time_s DOUBLE value s lower | Mean step time, that of avg_step_time.
-- @column   device_score DOUBLE value score higher | g0 / devices.
-- @column   time_score DOUBLE value score higher | t0_s / step_time_s.
-- @caveat   Scores compare only runs of the same model and batch.
-- @source   metrics 2.J gpu_step_score
SELECT
    s.trace,
    $w * $g0 / nullif(d.devices, 0) + (1 - $w) * $t0_s / nullif(s.step_s, 0)
        AS gpu_step_score,
    CAST(d.devices AS BIGINT) AS devices,
    s.step_s AS step_time_s,
    $g0 / nullif(d.devices, 0) AS device_score,
    $t0_s / nullif(s.step_s, 0) AS time_score
FROM _mean_step_times AS s
INNER JOIN _job_devices AS d ON d.trace = s.trace
ORDER BY s.trace
