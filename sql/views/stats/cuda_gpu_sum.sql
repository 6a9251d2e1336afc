-- @view     cuda_gpu_sum
-- @summary  Kernels, copies, sets and whole graphs on the devices of all ranks by name: how many,
--           how long, and how they spread.
-- @requires device_events copies
-- @null     the trace has no device events
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   category VARCHAR dim - | CUDA_KERNEL, MEMORY_OPER, or CUDA_GRAPH: a whole graph whose
--           kernels were not recorded.
-- @column   name VARCHAR dim - | Name of a kernel as recorded; memcpy with its direction; memset.
-- @column   share_pct DOUBLE value pct | Share of the time of all rows.
-- @column   total_ns BIGINT value ns lower | Sum of the durations.
-- @column   event_count BIGINT value count | Events.
-- @column   mean_ns DOUBLE value ns | Mean.
-- @column   median_ns DOUBLE value ns | Median; of an even number the mean of the two in the
--           middle.
-- @column   min_ns BIGINT value ns | Least.
-- @column   max_ns BIGINT value ns | Greatest.
-- @column   stddev_ns DOUBLE value ns | Standard deviation of a sample (divided by n - 1); 0 of one
--           alone.
-- @heading  share_pct | Time (%)
-- @heading  total_ns | Total Time (ns)
-- @heading  event_count | Instances
-- @heading  mean_ns | Avg (ns)
-- @heading  median_ns | Med (ns)
-- @heading  min_ns | Min (ns)
-- @heading  max_ns | Max (ns)
-- @heading  stddev_ns | StdDev (ns)
-- @heading  category | Category
-- @heading  name | Operation
-- @source   nsys stats cuda_gpu_sum of Nsight Systems; StdDev and Med are those of its SQLite
--           functions; it has no rows of whole graphs
WITH
    memory AS (
        SELECT
            c.trace,
            'memcpy' || coalesce(
                CASE c.direction
                    WHEN 'h2d' THEN ' HtoD'
                    WHEN 'd2h' THEN ' DtoH'
                    WHEN 'd2d' THEN ' DtoD'
                    WHEN 'p2p' THEN ' PtoP'
                    WHEN 'h2h' THEN ' HtoH'
                END, ''
            ) AS operation,
            c.dur_ns
        FROM copies AS c
        WHERE c.dur_ns IS NOT NULL
        UNION ALL
        SELECT trace, 'memset' AS operation, dur_ns
        FROM device_events
        WHERE class = 'set' AND dur_ns IS NOT NULL
    ),

    timed AS (
        SELECT
            trace, CASE WHEN class = 'graph' THEN 'CUDA_GRAPH' ELSE 'CUDA_KERNEL' END AS category, name,
            dur_ns
        FROM device_events
        WHERE class IN ('compute', 'comm', 'graph') AND dur_ns IS NOT NULL
        UNION ALL
        SELECT trace, 'MEMORY_OPER', operation, dur_ns
        FROM memory
    )

SELECT
    trace, category, name,
    100 * CAST(sum(dur_ns) AS DOUBLE) / nullif(sum(sum(dur_ns)) OVER (PARTITION BY trace), 0) AS share_pct,
    TRY_CAST(sum(dur_ns) AS BIGINT) AS total_ns,
    count(*) AS event_count,
    avg(dur_ns) AS mean_ns,
    median(dur_ns) AS median_ns,
    min(dur_ns) AS min_ns,
    max(dur_ns) AS max_ns,
    coalesce(stddev_samp(dur_ns ORDER BY dur_ns), 0) AS stddev_ns
FROM timed
GROUP BY trace, category, name
ORDER BY trace, total_ns DESC, category, name
