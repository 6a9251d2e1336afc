-- @metric   memory_bandwidth_utilization_pct
-- @version  1
-- @area     saturation
-- @summary  Memory traffic of the devices of a rank in its window, as a share of what their memory can give, mean over ranks.
-- @grain    trace
-- @profilers xla
-- @requires device_events
-- @reads    _rank_bytes _rank_times _rank_peaks
-- @value    memory_bandwidth_utilization_pct
-- @check    (SELECT count(bytes_accessed) FROM device_events) > 0 | no device event states the memory that it accesses (XLA traces of TPUs do)
-- @null     no peak is known: give one with -p peak_gb_per_s=, or the window is empty
-- @param    peak_gb_per_s DOUBLE NULL | Peak bandwidth of the memory of one device; else that of the trace, else that of device_peaks by the name of the device.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   memory_bandwidth_utilization_pct DOUBLE value pct higher | 100 x bytes accessed / window / (peak x devices of the rank), mean over the ranks whose peak is known.
-- @column   memory_rate_gb_per_s DOUBLE value gb_per_s higher | Bytes accessed / window of a rank, for one device, mean over ranks.
-- @column   busy_rate_gb_per_s DOUBLE value gb_per_s | Bytes accessed / busy time, mean over ranks.
-- @column   peak_hbm_gb_per_s DOUBLE value gb_per_s | The peak that counts, of the lowest rank.
-- @column   peak_source VARCHAR value - | param, trace, device_peaks, or NULL.
-- @column   accessed_bytes DOUBLE value bytes | Bytes that all operations of all ranks access.
-- @column   per_rank MAP value pct | Share of each rank.
-- @caveat   XLA counts the operands and results of each operation: what stays in memory on the chip counts as if it went through the memory of the device, so that the share can pass 100.
-- @source   metrics 2.F memory_bandwidth_utilization_pct (defect D09: per device)
WITH
    per_rank AS (
        SELECT
            b.trace, b.rank, b.bytes,
            b.bytes / nullif(t.window_ns, 0) AS window_gb_per_s,
            b.bytes / nullif(t.busy_ns, 0) AS busy_gb_per_s,
            coalesce($peak_gb_per_s, p.hbm_gb_per_s) AS peak_gb_per_s,
            CASE WHEN $peak_gb_per_s IS NOT NULL THEN 'param' ELSE p.hbm_source END AS peak_source
        FROM _rank_bytes AS b
        INNER JOIN _rank_times AS t
            ON t.trace = b.trace AND t.rank = b.rank AND t.basis = 'device'
        LEFT JOIN _rank_peaks AS p ON p.trace = b.trace AND p.rank = b.rank
    ),

    shares AS (
        SELECT
            trace, rank, bytes, window_gb_per_s, busy_gb_per_s, peak_gb_per_s, peak_source,
            100.0 * window_gb_per_s / nullif(peak_gb_per_s, 0) AS share_pct
        FROM per_rank
    ),

    final AS (
        SELECT
            trace,
            avg(share_pct ORDER BY rank) AS memory_bandwidth_utilization_pct,
            avg(window_gb_per_s ORDER BY rank) AS memory_rate_gb_per_s,
            avg(busy_gb_per_s ORDER BY rank) AS busy_rate_gb_per_s,
            list_extract(array_agg(peak_gb_per_s ORDER BY rank), 1) AS peak_hbm_gb_per_s,
            list_extract(array_agg(peak_source ORDER BY rank), 1) AS peak_source,
            sum(bytes ORDER BY rank) AS accessed_bytes,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(share_pct ORDER BY rank))
                AS per_rank
        FROM shares
        GROUP BY trace
    )

SELECT
    trace, memory_bandwidth_utilization_pct, memory_rate_gb_per_s, busy_rate_gb_per_s,
    peak_hbm_gb_per_s, peak_source, accessed_bytes, per_rank
FROM final
ORDER BY trace
