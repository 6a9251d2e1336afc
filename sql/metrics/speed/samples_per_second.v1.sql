-- @metric   samples_per_second
-- @version  1
-- @area     speed
-- @summary  Samples per second: global batch size, of the card or as given, over the mean step
--           time.
-- @grain    trace
-- @requires steps
-- @reads    _workload _mean_step_times _job_devices
-- @value    samples_per_s
-- @check    (SELECT count(*) FROM _mean_step_times WHERE step_s > 0) > 0 | the steps take no time
-- @null     the batch size is not known: a workload card states it, else -p batch_size=N gives it
-- @param    batch_size BIGINT NULL | Samples of a step of the whole job; that of the card where it
--           is not given.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   samples_per_s DOUBLE value samples_per_s higher | batch_size / mean step time (that of
--           avg_step_time).
-- @column   device_samples_per_s DOUBLE value samples_per_s higher | The same for one device of the
--           job.
-- @column   batch_size BIGINT value - | Samples of a step, of the whole job.
-- @column   step_time_s DOUBLE value s lower | Mean step time.
-- @column   num_iterations BIGINT value count | Kept steps of the rank with most.
-- @source   metrics 2.B samples_per_second (defect D12: steps of the trace)
WITH
    workload AS (
        SELECT s.trace, coalesce($batch_size, c.batch_size) AS batch_size
        FROM _mean_step_times AS s
        LEFT JOIN _workload AS c ON c.trace = s.trace
    )

SELECT
    s.trace,
    w.batch_size / nullif(s.step_s, 0) AS samples_per_s,
    w.batch_size / nullif(s.step_s, 0) / nullif(d.devices, 0) AS device_samples_per_s,
    w.batch_size,
    s.step_s AS step_time_s,
    s.step_count AS num_iterations
FROM _mean_step_times AS s
INNER JOIN workload AS w ON w.trace = s.trace
INNER JOIN _job_devices AS d ON d.trace = s.trace
WHERE w.batch_size > 0
ORDER BY s.trace
