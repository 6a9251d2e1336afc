-- @view     _step_noise
-- @summary  How much a quantity of a step varies over the steps of a trace: mean over ranks of each
--           step, then mean and spread of these.
-- @requires _step_times steps _comm_steps
WITH
    quantities AS (
        SELECT trace, rank, step, 'step_time' AS quantity, time_ns
        FROM _step_times
        UNION ALL
        SELECT trace, rank, step, 'all_step_time', dur_ns
        FROM steps
        UNION ALL
        SELECT trace, rank, step, 'comm', comm_ns
        FROM _comm_steps
    ),

    per_step AS (
        SELECT trace, quantity, step, avg(time_ns) AS time_ns
        FROM quantities
        WHERE time_ns IS NOT NULL
        GROUP BY trace, quantity, step
    )

SELECT
    trace, quantity,
    count(*) AS step_count,
    avg(time_ns ORDER BY step) AS mean,
    stddev_samp(time_ns ORDER BY step) AS std
FROM per_step
GROUP BY trace, quantity
