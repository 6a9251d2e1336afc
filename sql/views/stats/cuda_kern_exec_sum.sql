-- @view     cuda_kern_exec_sum
-- @summary  Kernels with the calls that launch them, by device and names: how long the call takes,
--           how long the kernel waits in the queue, how long it runs.
-- @requires launches device_events host_events
-- @null     no kernel names the call that launched it
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   device BIGINT dim - | Accelerator.
-- @column   api_name VARCHAR dim - | Call that launched it.
-- @column   kernel_name VARCHAR dim - | Name as recorded.
-- @column   kernel_count BIGINT value count | Kernels.
-- @column   queued_count BIGINT value count | Those that begin when the call has ended, or later.
-- @column   total_mean_ns DOUBLE value ns | Mean of the time from the start of the call to the end
--           of the kernel, or of the call where that is later.
-- @column   total_median_ns DOUBLE value ns | Median of it.
-- @column   total_min_ns BIGINT value ns | Least of it.
-- @column   total_max_ns BIGINT value ns | Greatest of it.
-- @column   total_stddev_ns DOUBLE value ns | Standard deviation of it as of a sample; 0 of one.
-- @column   api_mean_ns DOUBLE value ns lower | Mean duration of the call.
-- @column   api_median_ns DOUBLE value ns | Median of it.
-- @column   api_min_ns BIGINT value ns | Least of it.
-- @column   api_max_ns BIGINT value ns | Greatest of it.
-- @column   api_stddev_ns DOUBLE value ns | Standard deviation of it.
-- @column   queue_mean_ns DOUBLE value ns | Mean of the time from the end of the call to the start
--           of the kernel, of those that are queued.
-- @column   queue_median_ns DOUBLE value ns | Median of it.
-- @column   queue_min_ns BIGINT value ns | Least of it.
-- @column   queue_max_ns BIGINT value ns | Greatest of it.
-- @column   queue_stddev_ns DOUBLE value ns | Standard deviation of it; NULL where none is queued.
-- @column   kernel_mean_ns DOUBLE value ns lower | Mean duration of the kernel.
-- @column   kernel_median_ns DOUBLE value ns | Median of it.
-- @column   kernel_min_ns BIGINT value ns | Least of it.
-- @column   kernel_max_ns BIGINT value ns | Greatest of it.
-- @column   kernel_stddev_ns DOUBLE value ns | Standard deviation of it.
-- @heading  device | DevId
-- @heading  api_name | API Name
-- @heading  kernel_name | Kernel Name
-- @heading  kernel_count | Count
-- @heading  queued_count | QCount
-- @heading  total_mean_ns | TAvg (ns)
-- @heading  total_median_ns | TMed (ns)
-- @heading  total_min_ns | TMin (ns)
-- @heading  total_max_ns | TMax (ns)
-- @heading  total_stddev_ns | TStdDev (ns)
-- @heading  api_mean_ns | AAvg (ns)
-- @heading  api_median_ns | AMed (ns)
-- @heading  api_min_ns | AMin (ns)
-- @heading  api_max_ns | AMax (ns)
-- @heading  api_stddev_ns | AStdDev (ns)
-- @heading  queue_mean_ns | QAvg (ns)
-- @heading  queue_median_ns | QMed (ns)
-- @heading  queue_min_ns | QMin (ns)
-- @heading  queue_max_ns | QMax (ns)
-- @heading  queue_stddev_ns | QStdDev (ns)
-- @heading  kernel_mean_ns | KAvg (ns)
-- @heading  kernel_median_ns | KMed (ns)
-- @heading  kernel_min_ns | KMin (ns)
-- @heading  kernel_max_ns | KMax (ns)
-- @heading  kernel_stddev_ns | KStdDev (ns)
-- @caveat   Nsight Systems has a row for each thread that launches too.
-- @source   nsys stats cuda_kern_exec_sum of Nsight Systems
WITH
    calls AS (
        SELECT trace, event_id, name AS api_name, ts_ns, dur_ns
        FROM host_events
        WHERE class = 'host_runtime' AND dur_ns IS NOT NULL
    ),

    launched AS (
        SELECT
            d.trace, d.rank, d.device, c.api_name, d.name AS kernel_name,
            c.dur_ns AS api_ns,
            CASE WHEN d.ts_ns >= c.ts_ns + c.dur_ns THEN d.ts_ns - (c.ts_ns + c.dur_ns) END AS queue_ns,
            d.dur_ns AS kernel_ns,
            greatest(d.ts_ns + d.dur_ns, c.ts_ns + c.dur_ns) - c.ts_ns AS total_ns
        FROM device_events AS d
        INNER JOIN launches AS l ON l.event_id = d.event_id AND l.trace = d.trace
        -- An inner join may be planned before the one above, on the trace alone: all with all.
        LEFT JOIN calls AS c ON c.event_id = l.runtime_event_id AND c.trace = l.trace
        WHERE d.class IN ('compute', 'comm') AND d.dur_ns IS NOT NULL
    )

SELECT
    trace, rank, device, api_name, kernel_name,
    count(*) AS kernel_count,
    count(queue_ns) AS queued_count,
    avg(total_ns) AS total_mean_ns,
    median(total_ns) AS total_median_ns,
    min(total_ns) AS total_min_ns,
    max(total_ns) AS total_max_ns,
    coalesce(stddev_samp(total_ns ORDER BY total_ns), 0) AS total_stddev_ns,
    avg(api_ns) AS api_mean_ns,
    median(api_ns) AS api_median_ns,
    min(api_ns) AS api_min_ns,
    max(api_ns) AS api_max_ns,
    coalesce(stddev_samp(api_ns ORDER BY api_ns), 0) AS api_stddev_ns,
    avg(queue_ns) AS queue_mean_ns,
    median(queue_ns) AS queue_median_ns,
    min(queue_ns) AS queue_min_ns,
    max(queue_ns) AS queue_max_ns,
    CASE WHEN count(queue_ns) > 0 THEN coalesce(stddev_samp(queue_ns ORDER BY queue_ns), 0) END
        AS queue_stddev_ns,
    avg(kernel_ns) AS kernel_mean_ns,
    median(kernel_ns) AS kernel_median_ns,
    min(kernel_ns) AS kernel_min_ns,
    max(kernel_ns) AS kernel_max_ns,
    coalesce(stddev_samp(kernel_ns ORDER BY kernel_ns), 0) AS kernel_stddev_ns
FROM launched
GROUP BY trace, rank, device, api_name, kernel_name
HAVING count(api_ns) > 0
ORDER BY trace, rank, device, total_mean_ns DESC, api_name, kernel_name
