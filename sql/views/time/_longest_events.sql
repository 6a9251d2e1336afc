-- @view     _longest_events
-- @summary  How long the longest device event and the longest runtime call of each rank last: what
--           overlaps a span of time began no longer than that before it.
-- @materialize session
-- @partition rank
-- @requires device_events
-- @reads    host_events
SELECT trace, rank, max(device_ns) AS device_ns, max(call_ns) AS call_ns
FROM (
    SELECT trace, rank, max(dur_ns) AS device_ns, NULL AS call_ns
    FROM device_events
    GROUP BY trace, rank
    UNION ALL
    SELECT trace, rank, NULL, max(dur_ns)
    FROM host_events
    WHERE class = 'host_runtime'
    GROUP BY trace, rank
)
WHERE rank IS NOT NULL
GROUP BY trace, rank
