-- @metric   compute_intensity
-- @version  1
-- @area     devices
-- @summary  Floating-point operations for each byte of memory that the operations of the devices
--           access.
-- @grain    trace
-- @profilers xla
-- @requires device_events
-- @reads    _rank_bytes _device_counts
-- @value    compute_intensity
-- @check    (SELECT count(*) FROM _device_counts WHERE traffic_events > 0) > 0
--           | no device event states the memory that it accesses (XLA traces of TPUs do)
-- @check    (SELECT count(*) FROM _device_counts WHERE flops_events > 0) > 0
--           | no device event states floating-point operations (XLA traces of TPUs do)
-- @null     the operations access no memory
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   compute_intensity DOUBLE value flops_per_byte | Sum of flops / sum of bytes_accessed,
--           over the operations of all ranks that state the bytes, copies and communication too.
-- @column   of_compute DOUBLE value flops_per_byte | The same over operations of class compute
--           only.
-- @column   total_flops DOUBLE value flops | Sum of flops.
-- @column   accessed_bytes DOUBLE value bytes | Sum of bytes_accessed.
-- @column   operation_count BIGINT value count | Operations that state the bytes.
-- @column   per_rank MAP value flops_per_byte | Intensity of each rank.
-- @caveat   XLA counts the operands and results of each operation: what stays in memory on the chip
--           counts too, so that the true intensity is higher.
-- @source   metrics 2.F compute_intensity
SELECT
    trace,
    coalesce(sum(flops ORDER BY rank), 0) / nullif(sum(bytes ORDER BY rank), 0)
        AS compute_intensity,
    coalesce(sum(compute_flops ORDER BY rank), 0)
        / nullif(sum(compute_bytes ORDER BY rank), 0) AS of_compute,
    coalesce(sum(flops ORDER BY rank), 0) AS total_flops,
    sum(bytes ORDER BY rank) AS accessed_bytes,
    TRY_CAST(sum(event_count) AS BIGINT) AS operation_count,
    map(
        array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
        array_agg(coalesce(flops, 0) / nullif(bytes, 0) ORDER BY rank)
    ) AS per_rank
FROM _rank_bytes
WHERE rank IS NOT NULL
GROUP BY trace
ORDER BY trace
