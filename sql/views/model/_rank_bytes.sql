-- @view     _rank_bytes
-- @summary  Memory traffic and floating-point operations that the device events of a rank state.
-- @materialize session
-- @requires _device_counts
SELECT
    trace, rank,
    CAST(sum(bytes_accessed) AS DOUBLE) AS bytes,
    CAST(sum(traffic_flops) AS DOUBLE) AS flops,
    CAST(sum(bytes_accessed) FILTER (WHERE class = 'compute') AS DOUBLE) AS compute_bytes,
    CAST(sum(traffic_flops) FILTER (WHERE class = 'compute') AS DOUBLE) AS compute_flops,
    TRY_CAST(sum(traffic_events) AS BIGINT) AS event_count
FROM _device_counts
WHERE traffic_events > 0
GROUP BY trace, rank
