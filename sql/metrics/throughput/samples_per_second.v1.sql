-- @metric   samples_per_second
-- @version  1
-- @area     throughput
-- @summary  Samples per second: global batch size of the card over the mean step time.
-- @grain    trace
-- @requires cards steps
-- @reads    _mean_step_times _job_devices
-- @value    samples_per_s
-- @check    (SELECT max(batch_size) FROM cards) > 0 | the workload card has no batch_size
-- @null     the steps take no time
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   samples_per_s DOUBLE value samples_per_s higher | batch_size / mean step time (that of avg_step_time).
-- @column   device_samples_per_s DOUBLE value samples_per_s higher | The same for one device of the job.
-- @column   batch_size BIGINT value - | Samples of a step, of the whole job.
-- @column   step_time_s DOUBLE value s lower | Mean step time.
-- @column   num_iterations BIGINT value count | Kept steps of the rank with most.
-- @source   metrics 2.B samples_per_second (defect D12: steps of the trace)
WITH
    workload AS (
        SELECT trace, max(batch_size) AS batch_size
        FROM cards
        WHERE batch_size > 0
        GROUP BY trace
    ),

    final AS (
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
    )

SELECT trace, samples_per_s, device_samples_per_s, batch_size, step_time_s, num_iterations
FROM final
ORDER BY trace
