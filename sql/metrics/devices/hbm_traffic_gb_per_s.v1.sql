-- @metric   hbm_traffic_gb_per_s
-- @version  1
-- @area     devices
-- @summary  Bytes of memory that the operations of a device access per second, mean over ranks.
-- @grain    trace
-- @profilers xla
-- @requires device_events
-- @reads    _rank_bytes _rank_times _device_counts
-- @value    hbm_traffic_gb_per_s
-- @alias    estimated_bandwidth
-- @check    (SELECT count(*) FROM _device_counts WHERE traffic_events > 0) > 0
--           | no device event states the memory that it accesses (XLA traces of TPUs do)
-- @null     the window is empty
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   hbm_traffic_gb_per_s DOUBLE value gb_per_s higher | Bytes accessed by the device events
--           of a rank / its window, for one device, mean over ranks (10^9 bytes).
-- @column   busy_gb_per_s DOUBLE value gb_per_s | Bytes accessed / time in which the device does
--           anything, mean over ranks.
-- @column   of_compute_gb_per_s DOUBLE value gb_per_s | Bytes accessed by events of class compute /
--           window, mean over ranks.
-- @column   accessed_bytes DOUBLE value bytes | Bytes that all device events of all ranks access.
-- @column   operation_count BIGINT value count | Device events that state the bytes.
-- @column   per_rank MAP value gb_per_s | Rate of each rank.
-- @caveat   No network bandwidth, though the earlier name says no more than bandwidth. XLA counts
--           the operands and results of each operation: what stays on the chip counts too.
-- @caveat   The tool that set the name adds up nested operations and all devices, and divides by a
--           span with the host in it.
-- @source   metrics 2.D estimated_bandwidth (defects D09, D40)
WITH
    per_rank AS (
        SELECT
            b.trace, b.rank, b.bytes, b.event_count,
            b.bytes / nullif(t.window_ns, 0) AS window_gb_per_s,
            b.bytes / nullif(t.busy_ns, 0) AS busy_gb_per_s,
            coalesce(b.compute_bytes, 0) / nullif(t.window_ns, 0) AS compute_gb_per_s
        FROM _rank_bytes AS b
        INNER JOIN _rank_times AS t
            ON t.trace = b.trace AND t.rank = b.rank AND t.basis = 'device'
    )

SELECT
    trace,
    avg(window_gb_per_s ORDER BY rank) AS hbm_traffic_gb_per_s,
    avg(busy_gb_per_s ORDER BY rank) AS busy_gb_per_s,
    avg(compute_gb_per_s ORDER BY rank) AS of_compute_gb_per_s,
    sum(bytes ORDER BY rank) AS accessed_bytes,
    TRY_CAST(sum(event_count) AS BIGINT) AS operation_count,
    map(
        array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
        array_agg(window_gb_per_s ORDER BY rank)
    ) AS per_rank
FROM per_rank
GROUP BY trace
ORDER BY trace
