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
        WHERE d.dur_ns IS NOT NULL
        GROUP BY l.trace, l.range_event_id
    ),

    -- Every range with what is launched inside it, at most 2^step - 1 ranges further in, and the
    -- range 2^step further out: each step doubles how far a range sees, so that deep nesting costs
    -- few steps.
    seen AS (
        SELECT
            r.trace, r.event_id, r.parent_event_id AS outer_id, 0 AS step,
            d.start_ns, d.end_ns, coalesce(d.events, 0) AS events,
            true AS has_more
        FROM ranges AS r
        LEFT JOIN direct AS d ON d.trace = r.trace AND d.event_id = r.event_id
        UNION ALL
        SELECT
            s.trace, s.event_id, o.outer_id, s.step + 1,
            least(s.start_ns, i.start_ns), greatest(s.end_ns, i.end_ns),
            s.events + coalesce(i.events, 0),
            max(s.outer_id) OVER () IS NOT NULL
        FROM seen AS s
        LEFT JOIN (
            SELECT
                trace, outer_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
                CAST(sum(events) AS BIGINT) AS events
            FROM seen
            GROUP BY trace, outer_id
        ) AS i ON i.trace = s.trace AND i.outer_id = s.event_id
        LEFT JOIN seen AS o ON o.trace = s.trace AND o.event_id = s.outer_id
        -- A parent begins before its children, so it ends; 24 steps are 16 million ranges.
        WHERE s.has_more AND s.step < 24
    ),

    projected AS (
        SELECT trace, event_id, end_ns - start_ns AS proj_ns, events
        FROM seen
        WHERE step = (SELECT max(step) FROM seen) AND events > 0
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
INNER JOIN host_events AS n ON n.trace = p.trace AND n.event_id = p.event_id
GROUP BY p.trace, n.name
ORDER BY p.trace, total_proj_ns DESC, n.name
