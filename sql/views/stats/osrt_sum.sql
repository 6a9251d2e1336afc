-- @view     osrt_sum
-- @summary  Calls of the operating system's libraries on the hosts of all ranks by name: how many,
--           how long, and how they spread.
-- @requires host_events
-- @null     no call of the operating system's libraries was recorded (nsys profile --trace=osrt
--           records them)
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   name VARCHAR dim - | Name of the call.
-- @column   share_pct DOUBLE value pct | Share of the time of all rows.
-- @column   total_ns BIGINT value ns lower | Sum of the durations.
-- @column   call_count BIGINT value count | Calls.
-- @column   mean_ns DOUBLE value ns | Mean.
-- @column   median_ns DOUBLE value ns | Median; of an even number the mean of the two in the
--           middle.
-- @column   min_ns BIGINT value ns | Least.
-- @column   max_ns BIGINT value ns | Greatest.
-- @column   stddev_ns DOUBLE value ns | Standard deviation of a sample (divided by n - 1); 0 of one
--           alone.
-- @heading  share_pct | Time (%)
-- @heading  total_ns | Total Time (ns)
-- @heading  call_count | Num Calls
-- @heading  mean_ns | Avg (ns)
-- @heading  median_ns | Med (ns)
-- @heading  min_ns | Min (ns)
-- @heading  max_ns | Max (ns)
-- @heading  stddev_ns | StdDev (ns)
-- @heading  name | Name
-- @source   nsys stats osrt_sum of Nsight Systems; StdDev and Med are those of its SQLite functions
WITH
    timed AS (
        SELECT trace, name, dur_ns
        FROM host_events
        WHERE source = 'nsys' AND category = 'OSRT_API' AND dur_ns IS NOT NULL
            -- 27 is a call; the others say when the recording began and ended.
            AND coalesce(
                json_extract_string(CASE WHEN json_valid(args) THEN args END, '$.eventClass'), '27'
            ) = '27'
    )

SELECT
    trace, name,
    100 * CAST(sum(dur_ns) AS DOUBLE) / nullif(sum(sum(dur_ns)) OVER (PARTITION BY trace), 0) AS share_pct,
    TRY_CAST(sum(dur_ns) AS BIGINT) AS total_ns,
    count(*) AS call_count,
    avg(dur_ns) AS mean_ns,
    median(dur_ns) AS median_ns,
    min(dur_ns) AS min_ns,
    max(dur_ns) AS max_ns,
    coalesce(stddev_samp(dur_ns ORDER BY dur_ns), 0) AS stddev_ns
FROM timed
GROUP BY trace, name
ORDER BY trace, total_ns DESC, name
