-- @view     _launch_coverage
-- @summary  Share of the device events (kernels, copies, sets) of a trace whose launch is known.
-- @materialize session
-- @requires device_events launches
WITH
    event_counts AS (
        SELECT trace, count(*) AS event_count
        FROM device_events
        WHERE class IN ('comm', 'compute', 'copy', 'set', 'graph')
        GROUP BY trace
    ),

    launch_counts AS (
        SELECT trace, count(DISTINCT event_id) AS launch_count
        FROM launches
        WHERE launch_ts_ns IS NOT NULL
        GROUP BY trace
    )

SELECT
    e.trace,
    least(CAST(coalesce(l.launch_count, 0) AS DOUBLE) / e.event_count, 1) AS launch_coverage_ratio
FROM event_counts AS e
LEFT JOIN launch_counts AS l ON l.trace = e.trace
