-- @view     nvtx_gpu_proj_sum
-- @summary  Ranges that a program marks on the hosts of all ranks, by name, projected on the
--           devices: from the start of the first to the end of the last device event that is
--           launched inside them.
-- @requires host_ranges launches device_events host_events
-- @null     no range that the program marks launches device events
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   name VARCHAR dim - | Name of the range, without its domain.
-- @column   total_proj_ns BIGINT value ns lower | Times on the device added up.
-- @column   total_range_ns BIGINT value ns lower | Durations of the ranges on the host added up.
-- @column   range_count BIGINT value count | Ranges that launch device events.
-- @column   mean_proj_ns DOUBLE value ns | Mean time on the device.
-- @column   median_proj_ns DOUBLE value ns | Median of it.
-- @column   min_proj_ns BIGINT value ns | Least of it.
-- @column   max_proj_ns BIGINT value ns | Greatest of it.
-- @column   stddev_proj_ns DOUBLE value ns | Standard deviation of it as of a sample; 0 of one.
-- @column   device_event_count BIGINT value count | Device events that they launch.
-- @column   mean_device_event_count DOUBLE value count | Mean over the ranges.
-- @heading  name | Range
-- @heading  total_proj_ns | Total Proj Time (ns)
-- @heading  total_range_ns | Total Range Time (ns)
-- @heading  range_count | Range Instances
-- @heading  mean_proj_ns | Proj Avg (ns)
-- @heading  median_proj_ns | Proj Med (ns)
-- @heading  min_proj_ns | Proj Min (ns)
-- @heading  max_proj_ns | Proj Max (ns)
-- @heading  stddev_proj_ns | Proj StdDev (ns)
-- @heading  device_event_count | Total GPU Ops
-- @heading  mean_device_event_count | Avg GPU Ops
-- @caveat   Operators that emit_nvtx of PyTorch writes as ranges are no ranges here: ops_summary
--           has them.
-- @caveat   A range that starts in another and ends behind it counts as inside of it.
-- @source   nsys stats nvtx_gpu_proj_sum of Nsight Systems
WITH RECURSIVE
    ranges AS (
        SELECT trace, event_id, parent_event_id, dur_ns
        FROM host_ranges
        WHERE kind = 'annotation'
    ),

    -- What is launched with a range as the innermost one.
    direct AS (
        SELECT
            l.trace, l.range_event_id AS event_id,
            min(d.ts_ns) AS start_ns, max(d.ts_ns + d.dur_ns) AS end_ns, count(*) AS events
        FROM launches AS l
        INNER JOIN device_events AS d ON d.event_id = l.event_id AND d.trace = l.trace
        WHERE l.range_event_id IS NOT NULL AND d.dur_ns IS NOT NULL
        GROUP BY l.trace, l.range_event_id
    ),

    -- Each of them with the ranges around it; UNION ends at a range that is around itself.
    around AS (
        SELECT trace, event_id AS inner_id, event_id FROM direct
        UNION
        SELECT a.trace, a.inner_id, r.parent_event_id
        FROM around AS a
        INNER JOIN ranges AS r ON r.trace = a.trace AND r.event_id = a.event_id
        WHERE r.parent_event_id IS NOT NULL
    ),

    projected AS (
        SELECT
            a.trace, a.event_id,
            max(d.end_ns) - min(d.start_ns) AS proj_ns, sum(d.events) AS events
        FROM around AS a
        INNER JOIN direct AS d ON d.trace = a.trace AND d.event_id = a.inner_id
        GROUP BY a.trace, a.event_id
    ),

    names AS (
        SELECT trace, event_id, name
        FROM host_events
        WHERE dur_ns IS NOT NULL
    )

SELECT
    p.trace, n.name,
    TRY_CAST(sum(p.proj_ns) AS BIGINT) AS total_proj_ns,
    TRY_CAST(sum(r.dur_ns) AS BIGINT) AS total_range_ns,
    count(*) AS range_count,
    avg(p.proj_ns) AS mean_proj_ns,
    median(p.proj_ns) AS median_proj_ns,
    min(p.proj_ns) AS min_proj_ns,
    max(p.proj_ns) AS max_proj_ns,
    coalesce(stddev_samp(p.proj_ns ORDER BY p.proj_ns), 0) AS stddev_proj_ns,
    CAST(sum(p.events) AS BIGINT) AS device_event_count,
    CAST(sum(p.events) AS DOUBLE) / count(*) AS mean_device_event_count
FROM projected AS p
INNER JOIN ranges AS r ON r.trace = p.trace AND r.event_id = p.event_id
INNER JOIN names AS n ON n.trace = p.trace AND n.event_id = p.event_id
GROUP BY p.trace, n.name
ORDER BY p.trace, total_proj_ns DESC, n.name
