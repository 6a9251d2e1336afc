-- @metric   nvlink_throughput_gb_per_s
-- @version  1
-- @area     bandwidth
-- @summary  Bytes that the links of NVLink moved per second, by samples of their counters: mean
--           over time, links and directions.
-- @grain    trace
-- @profilers bench
-- @alias    nvlink_usage nvlink_usage_group11
-- @reads    _nvlink_intervals counters device_events
-- @value    mean_gb_per_s
-- @null     no counter has two samples between which it did not run backwards
-- @check    (SELECT count(*) FROM counters WHERE name LIKE 'nvlink.%') > 0
--           | the trace has no samples of the counters of NVLink (files of NVML samples, magic
--           NVF1)
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   mean_gb_per_s DOUBLE value gb_per_s | Bytes / time, summed over the intervals of all
--           links and directions: the mean of one link in one direction.
-- @column   max_gb_per_s DOUBLE value gb_per_s | Highest rate of a link in one direction between
--           two samples.
-- @column   max_link STRUCT value - | Where and when: device, link, direction, start (ns since the
--           Unix epoch), duration, bytes.
-- @column   total_bytes BIGINT value bytes | (sent + received) / 2: what one device sends another
--           receives; the one direction where only one was sampled.
-- @column   tx_bytes BIGINT value bytes | Bytes sent, all links; NULL where not sampled.
-- @column   rx_bytes BIGINT value bytes | Bytes received, all links; NULL where not sampled.
-- @column   interval_count BIGINT value count | Intervals between two samples.
-- @column   reset_count BIGINT value count | Intervals in which a counter ran backwards: in no
--           figure.
-- @column   by_link LIST value - | Each device, link and direction: bytes, mean and highest rate,
--           intervals.
-- @column   by_device LIST value - | Each device and direction: links, bytes, and the rate of all
--           its links together, mean over its samples.
-- @column   peak_kernels LIST value - | Kernels of the trace that ran while the rate was highest,
--           the ten names with most time in it; NULL where there are none, or their times have no
--           epoch.
-- @caveat   Counters of NVML move in steps: samples taken more often than the driver refreshes them
--           show zeros and peaks that are none.
-- @warn     peak_kernels IS NOT NULL
--           | nothing ties a device of NVML to a rank: peak_kernels are of all ranks, and rest on
--           the clocks of host and profiler being one
-- @source   metrics 2.D nvlink_throughput
WITH
    intervals AS (
        SELECT
            trace, device, series, link, direction, start_ns, end_ns, moved_bytes AS bytes,
            end_ns - start_ns AS dur_ns,
            moved_bytes / CAST(end_ns - start_ns AS DOUBLE) AS gb_per_s  -- bytes/ns = GB/s
        FROM _nvlink_intervals
    ),

    counted AS (
        SELECT trace, device, series, link, direction, start_ns, end_ns, bytes, dur_ns, gb_per_s
        FROM intervals
        WHERE bytes IS NOT NULL
    ),

    resets AS (
        SELECT trace, count(*) - count(bytes) AS reset_count
        FROM intervals
        GROUP BY trace
    ),

    links AS (
        SELECT
            trace, device, series, link, direction,
            TRY_CAST(sum(bytes) AS BIGINT) AS bytes,
            TRY_CAST(sum(dur_ns) AS BIGINT) AS dur_ns,
            max(gb_per_s) AS max_gb_per_s,
            count(*) AS interval_count
        FROM counted
        GROUP BY trace, device, series, link, direction
    ),

    link_lists AS (
        SELECT
            trace,
            array_agg({
                device: device,
                link: link,
                direction: direction,
                bytes: bytes,
                mean_gb_per_s: bytes / CAST(dur_ns AS DOUBLE),
                max_gb_per_s: max_gb_per_s,
                intervals: interval_count
            } ORDER BY device, series) AS by_link
        FROM links
        GROUP BY trace
    ),

    -- Files whose names say no device are told apart by the end of the counters' names.
    devices AS (
        SELECT
            trace, device, split_part(series, '@', 2) AS file, direction,
            count(*) AS link_count,
            TRY_CAST(sum(bytes) AS BIGINT) AS bytes,
            sum(bytes / CAST(dur_ns AS DOUBLE) ORDER BY series) AS gb_per_s
        FROM links
        GROUP BY trace, device, split_part(series, '@', 2), direction
    ),

    device_lists AS (
        SELECT
            trace,
            array_agg({
                device: device,
                direction: direction,
                links: link_count,
                bytes: bytes,
                gb_per_s: gb_per_s
            } ORDER BY device, file, direction) AS by_device
        FROM devices
        GROUP BY trace
    ),

    peaks AS (
        SELECT trace, device, link, direction, start_ns, end_ns, dur_ns, bytes, gb_per_s
        FROM counted
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY gb_per_s DESC, start_ns, device, series
        ) = 1
    ),

    peak_events AS (
        SELECT
            d.trace, d.name,
            least(d.ts_ns + d.dur_ns, p.end_ns) - greatest(d.ts_ns, p.start_ns) AS inside_ns
        FROM device_events AS d
        INNER JOIN peaks AS p
            ON p.trace = d.trace AND d.ts_ns < p.end_ns AND d.ts_ns + d.dur_ns > p.start_ns
        WHERE d.class IN ('compute', 'comm')
    ),

    peak_names AS (
        SELECT
            trace, name, count(*) AS kernel_count, TRY_CAST(sum(inside_ns) AS BIGINT) AS inside_ns
        FROM peak_events
        GROUP BY trace, name
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY sum(inside_ns) DESC, name
        ) <= 10
    ),

    peak_lists AS (
        SELECT
            trace,
            array_agg({name: name, kernels: kernel_count, time_us: inside_ns / 1e3}
                ORDER BY inside_ns DESC, name) AS peak_kernels
        FROM peak_names
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace,
            sum(bytes) / nullif(CAST(sum(dur_ns) AS DOUBLE), 0) AS mean_gb_per_s,
            TRY_CAST(sum(bytes) FILTER (WHERE direction = 'tx') AS BIGINT) AS tx_bytes,
            TRY_CAST(sum(bytes) FILTER (WHERE direction = 'rx') AS BIGINT) AS rx_bytes,
            TRY_CAST(sum(interval_count) AS BIGINT) AS interval_count
        FROM links
        GROUP BY trace
    )

SELECT
    t.trace, t.mean_gb_per_s, p.gb_per_s AS max_gb_per_s,
    {
        device: p.device,
        link: p.link,
        direction: p.direction,
        start_ns: p.start_ns,
        duration_us: p.dur_ns / 1e3,
        bytes: p.bytes
    } AS max_link,
    CASE WHEN t.tx_bytes IS NOT NULL AND t.rx_bytes IS NOT NULL
        THEN (t.tx_bytes + t.rx_bytes) // 2
        ELSE coalesce(t.tx_bytes, t.rx_bytes)
    END AS total_bytes,
    t.tx_bytes, t.rx_bytes, t.interval_count,
    r.reset_count, l.by_link, d.by_device, k.peak_kernels
FROM totals AS t
INNER JOIN peaks AS p ON p.trace = t.trace
INNER JOIN resets AS r ON r.trace = t.trace
INNER JOIN link_lists AS l ON l.trace = t.trace
INNER JOIN device_lists AS d ON d.trace = t.trace
LEFT JOIN peak_lists AS k ON k.trace = t.trace
ORDER BY t.trace
