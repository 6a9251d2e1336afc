-- @metric   hbm_utilization_pct
-- @version  1
-- @area     memory
-- @summary  Most memory that PyTorch had allocated on a device at a time, as a share of the memory
--           of the device; the rank with the largest share.
-- @grain    trace
-- @profilers kineto memory
-- @reads    _rank_memory _memory_sources _memory_reasons
-- @value    hbm_utilization_pct
-- @reason   (SELECT why FROM _memory_reasons WHERE what = 'levels')
--           | nothing recorded the levels of the memory of a device
-- @null     the trace does not say how much memory a device has (-p device_memory_gib=80 gives it)
-- @param    device_memory_gib DOUBLE NULL | Memory of a device in GiB, where the trace does not say
--           it.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   hbm_utilization_pct DOUBLE value pct | 100 x peak of allocated bytes / memory of the
--           device, the largest over ranks.
-- @column   mean_pct DOUBLE value pct | Mean over ranks.
-- @column   reserved_pct DOUBLE value pct | The same of the bytes that the allocator held, the
--           largest over ranks.
-- @column   peak_allocated_gib DOUBLE value gib lower | Peak of allocated bytes, the largest over
--           ranks (that of the metric memory).
-- @column   device_memory_gib DOUBLE value gib | Memory of the device of the rank with the largest
--           share.
-- @column   method VARCHAR value - | Recording that the peaks are of: snapshot, timeline or
--           counters.
-- @column   per_rank MAP value pct | Share of each rank.
-- @warn     hbm_utilization_pct > 100
--           | the share is above 100 %: the device has more memory than device_memory_gib says
-- @caveat   Only what goes through PyTorch's allocator counts: NCCL, CUDA contexts and other
--           libraries are not in it.
-- @source   metrics 2.F hbm_utilization (as a percentage, of the device that the trace names)
WITH
    per_rank AS (
        SELECT
            trace, rank, method, allocated_bytes,
            coalesce(device_bytes, $device_memory_gib * 1073741824) AS device_bytes,
            100.0 * allocated_bytes / nullif(coalesce(device_bytes, $device_memory_gib * 1073741824), 0)
                AS share_pct,
            100.0 * reserved_bytes / nullif(coalesce(device_bytes, $device_memory_gib * 1073741824), 0)
                AS reserved_pct
        FROM _rank_memory
    )

SELECT
    trace,
    max(share_pct) AS hbm_utilization_pct,
    avg(share_pct ORDER BY rank) AS mean_pct,
    max(reserved_pct) AS reserved_pct,
    max(allocated_bytes) / 1073741824 AS peak_allocated_gib,
    list_extract(
        array_agg(device_bytes / 1073741824 ORDER BY share_pct DESC NULLS LAST, rank), 1
    ) AS device_memory_gib,
    min(method) AS method,
    map(
        array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
        array_agg(share_pct ORDER BY rank)
    ) AS per_rank
FROM per_rank
GROUP BY trace
ORDER BY trace
