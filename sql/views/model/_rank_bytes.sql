-- @view     _rank_bytes
-- @summary  Memory traffic and floating-point operations that the device events of a rank state.
-- @materialize session
-- @requires device_events
SELECT
    trace, rank,
    CAST(sum(bytes_accessed) AS DOUBLE) AS bytes,
    CAST(sum(flops) AS DOUBLE) AS flops,
    CAST(sum(bytes_accessed) FILTER (WHERE class = 'compute') AS DOUBLE) AS compute_bytes,
    CAST(sum(flops) FILTER (WHERE class = 'compute') AS DOUBLE) AS compute_flops,
    count(*) AS event_count
FROM device_events
WHERE bytes_accessed IS NOT NULL
GROUP BY trace, rank
