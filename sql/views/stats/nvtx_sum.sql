-- @view     nvtx_sum
-- @summary  Ranges that a program marks on the hosts of all ranks (NVTX, record_function,
--           TraceAnnotation) by name: how many, how long, and how they spread.
-- @requires host_events
-- @null     the program marks no ranges
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   style VARCHAR dim - | PushPop or StartEnd (NVTX); NULL of other sources.
-- @column   name VARCHAR dim - | Name of the range, with that of its domain before it where it has
--           one; without the number that emit_nvtx of PyTorch gives each operator.
-- @column   share_pct DOUBLE value pct | Share of the time of all rows.
-- @column   total_ns BIGINT value ns lower | Sum of the durations.
-- @column   range_count BIGINT value count | Ranges.
-- @column   mean_ns DOUBLE value ns | Mean.
-- @column   median_ns DOUBLE value ns | Median; of an even number the mean of the two in the
--           middle.
-- @column   min_ns BIGINT value ns | Least.
-- @column   max_ns BIGINT value ns | Greatest.
-- @column   stddev_ns DOUBLE value ns | Standard deviation of a sample (divided by n - 1); 0 of one
--           alone.
-- @heading  share_pct | Time (%)
-- @heading  total_ns | Total Time (ns)
-- @heading  range_count | Instances
-- @heading  mean_ns | Avg (ns)
-- @heading  median_ns | Med (ns)
-- @heading  min_ns | Min (ns)
-- @heading  max_ns | Max (ns)
-- @heading  stddev_ns | StdDev (ns)
-- @heading  style | Style
-- @heading  name | Range
-- @caveat   Ranges lie in one another: the shares are of their times added up, not of the elapsed
--           time.
-- @source   nsys stats nvtx_sum of Nsight Systems; StdDev and Med are those of its SQLite functions
WITH
    ranges AS (
        SELECT
            trace, name, dur_ns, category = 'NVTX_EVENTS' AS is_nvtx,
            CASE WHEN category = 'NVTX_EVENTS' AND json_valid(args) THEN args END AS args
        FROM host_events
        WHERE (class = 'host_annotation' OR category = 'NVTX_EVENTS') AND dur_ns IS NOT NULL
    ),

    spoken AS (
        SELECT
            trace, name, dur_ns, is_nvtx,
            json_extract_string(args, '$.domain') AS domain,
            json_extract_string(args, '$.eventType') AS event_type
        FROM ranges
    ),

    timed AS (
        SELECT
            trace,
            CASE
                WHEN event_type IN ('59', '70') THEN 'PushPop'
                WHEN event_type IN ('60', '71') THEN 'StartEnd'
            END AS style,
            concat(domain || ':', name) AS name,
            dur_ns
        FROM spoken
        WHERE NOT is_nvtx OR event_type IN ('59', '60', '70', '71')
    )

SELECT
    trace, style, name,
    100 * CAST(sum(dur_ns) AS DOUBLE) / nullif(sum(sum(dur_ns)) OVER (PARTITION BY trace), 0) AS share_pct,
    TRY_CAST(sum(dur_ns) AS BIGINT) AS total_ns,
    count(*) AS range_count,
    avg(dur_ns) AS mean_ns,
    median(dur_ns) AS median_ns,
    min(dur_ns) AS min_ns,
    max(dur_ns) AS max_ns,
    coalesce(stddev_samp(dur_ns ORDER BY dur_ns), 0) AS stddev_ns
FROM timed
GROUP BY trace, style, name
ORDER BY trace, total_ns DESC, style, name
