-- @metric   memory_bandwidth_utilization_pct
-- @version  1
-- @area     devices
-- @summary  Memory traffic of the devices of a rank in its window, as a share of what their memory
--           can give, mean over ranks.
-- @grain    trace
-- @profilers xla nsys
-- @requires device_events
-- @reads    _rank_bytes _rank_times _rank_peaks _windows counters _device_counts
-- @value    memory_bandwidth_utilization_pct
-- @check    (SELECT count(*) FROM _device_counts WHERE traffic_events > 0) > 0 OR (SELECT count(*)
--           FROM counters WHERE source = 'nsys' AND (lower(name) LIKE 'dram read%' OR lower(name)
--           LIKE 'dram write%')) > 0
--           | no device event states the memory that it accesses (XLA traces of TPUs do), and
--           nothing sampled the bandwidth of the memory (nsys profile --gpu-metrics-devices=all
--           does)
-- @null     no peak is known: give one with -p peak_gb_per_s=, or no sample lies in the window, or
--           it is empty
-- @param    peak_gb_per_s DOUBLE NULL | Peak bandwidth of the memory of one device; else that of
--           the trace, else that of device_peaks by the name of the device.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   memory_bandwidth_utilization_pct DOUBLE value pct higher | 100 x bytes accessed /
--           window / (peak x devices of the rank), mean over the ranks whose peak is known; by
--           method counters the mean of the samples in the window, reading and writing together,
--           mean over devices, then ranks.
-- @column   method VARCHAR value - | bytes (operations that state the bytes they access), or
--           counters (samples of the bandwidth of the memory, in percent of its peak).
-- @column   read_pct DOUBLE value pct | By method counters the part that reads; NULL by the other.
-- @column   write_pct DOUBLE value pct | By method counters the part that writes; NULL by the
--           other.
-- @column   memory_rate_gb_per_s DOUBLE value gb_per_s higher | Bytes accessed / window of a rank,
--           for one device, mean over ranks.
-- @column   busy_rate_gb_per_s DOUBLE value gb_per_s | Bytes accessed / busy time, mean over ranks.
-- @column   peak_hbm_gb_per_s DOUBLE value gb_per_s | The peak that counts, of the lowest rank.
-- @column   peak_source VARCHAR value - | param, trace, device_peaks, or NULL; by method counters
--           the peak is that of the sampler and not stated.
-- @column   accessed_bytes DOUBLE value bytes | Bytes that all operations of all ranks access.
-- @column   per_rank MAP value pct | Share of each rank.
-- @caveat   XLA counts the operands and results of each operation: what stays in memory on the chip
--           counts as if it went through the memory of the device, so that the share can pass 100.
-- @warn     memory_bandwidth_utilization_pct > 100
--           | the share is above 100 %: what stays on the chip counts too, or the peak is not that
--           of the device
-- @warn     $peak_gb_per_s IS NOT NULL AND method = 'counters'
--           | peak_gb_per_s changes nothing: the samples are percentages already
-- @warn     method = 'counters' AND (read_pct IS NULL OR write_pct IS NULL)
--           | only one of reading and writing was sampled: the figure is a lower bound
-- @source   metrics 2.F memory_bandwidth_utilization_pct (defect D09: per device)
WITH
    per_rank AS (
        SELECT
            b.trace, b.rank, 'bytes' AS method, b.bytes,
            b.bytes / nullif(t.window_ns, 0) AS window_gb_per_s,
            b.bytes / nullif(t.busy_ns, 0) AS busy_gb_per_s,
            coalesce($peak_gb_per_s, p.hbm_gb_per_s) AS peak_gb_per_s,
            CASE WHEN $peak_gb_per_s IS NOT NULL THEN 'param' ELSE p.hbm_source END AS peak_source
        FROM _rank_bytes AS b
        INNER JOIN _rank_times AS t
            ON t.trace = b.trace AND t.rank = b.rank AND t.basis = 'device'
        LEFT JOIN _rank_peaks AS p ON p.trace = b.trace AND p.rank = b.rank
    ),

    samples AS (
        SELECT
            c.trace, c.rank, c.device,
            avg(c.value ORDER BY c.ts_ns, c.value) FILTER (WHERE lower(c.name) LIKE 'dram read%')
                AS read_pct,
            avg(c.value ORDER BY c.ts_ns, c.value) FILTER (WHERE lower(c.name) LIKE 'dram write%')
                AS write_pct
        FROM counters AS c
        INNER JOIN _windows AS w ON w.trace = c.trace AND w.rank = c.rank
        WHERE c.source = 'nsys' AND c.ts_ns >= w.start_ns AND c.ts_ns < w.end_ns
            AND (lower(c.name) LIKE 'dram read%' OR lower(c.name) LIKE 'dram write%')
        GROUP BY c.trace, c.rank, c.device
    ),

    shares AS (
        SELECT
            trace, rank, method, bytes, window_gb_per_s, busy_gb_per_s, peak_gb_per_s, peak_source,
            100.0 * window_gb_per_s / nullif(peak_gb_per_s, 0) AS share_pct,
            CAST(NULL AS DOUBLE) AS read_pct, CAST(NULL AS DOUBLE) AS write_pct
        FROM per_rank
        UNION ALL
        SELECT
            s.trace, s.rank, 'counters', NULL, NULL, NULL, NULL, NULL,
            avg(coalesce(s.read_pct, 0) + coalesce(s.write_pct, 0) ORDER BY s.device),
            avg(s.read_pct ORDER BY s.device),
            avg(s.write_pct ORDER BY s.device)
        FROM samples AS s
        LEFT JOIN per_rank AS r ON r.trace = s.trace AND r.rank = s.rank
        WHERE r.trace IS NULL
        GROUP BY s.trace, s.rank
    )

SELECT
    trace,
    avg(share_pct ORDER BY rank) AS memory_bandwidth_utilization_pct,
    min(method) AS method,
    avg(read_pct ORDER BY rank) AS read_pct,
    avg(write_pct ORDER BY rank) AS write_pct,
    avg(window_gb_per_s ORDER BY rank) AS memory_rate_gb_per_s,
    avg(busy_gb_per_s ORDER BY rank) AS busy_rate_gb_per_s,
    list_extract(array_agg(peak_gb_per_s ORDER BY rank), 1) AS peak_hbm_gb_per_s,
    list_extract(array_agg(peak_source ORDER BY rank), 1) AS peak_source,
    sum(bytes ORDER BY rank) AS accessed_bytes,
    map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(share_pct ORDER BY rank))
        AS per_rank
FROM shares
GROUP BY trace
ORDER BY trace
