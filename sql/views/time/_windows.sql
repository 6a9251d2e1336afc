-- @view     _windows
-- @summary  Window of each rank: first start to last end of its device events; of its host slices
--           where the rank has no device events.
-- @materialize session
-- @partition rank
-- @requires device_events host_events ranks
WITH
    device_windows AS (
        SELECT trace, rank, min(ts_ns) AS start_ns, max(ts_ns + dur_ns + coalesce(ts_ps + dur_ps, 0) // 1000) AS end_ns,
            CAST(count(DISTINCT device) AS HUGEINT) AS device_count
        FROM device_events
        WHERE class IN ('comm', 'compute', 'copy', 'set', 'graph') AND dur_ns IS NOT NULL
            AND rank IS NOT NULL
        GROUP BY trace, rank
    ),

    -- A join with nothing reads nothing: host_events is most of a trace.
    hosts AS (
        SELECT trace, rank
        FROM ranks
        EXCEPT
        SELECT trace, rank
        FROM device_windows
    ),

    host_windows AS (
        SELECT h.trace, h.rank, min(h.ts_ns) AS start_ns, max(h.ts_ns + h.dur_ns) AS end_ns
        FROM host_events AS h
        INNER JOIN hosts AS o ON o.trace = h.trace AND o.rank = h.rank
        WHERE h.dur_ns IS NOT NULL
        GROUP BY h.trace, h.rank
    )

SELECT trace, rank, start_ns, end_ns, device_count, 'device' AS basis
FROM device_windows
UNION ALL
SELECT trace, rank, start_ns, end_ns, 1, 'host'
FROM host_windows
