-- @view     _launch_coverage
-- @summary  Share of the device events (kernels, copies, sets) of a trace whose launch, and so
--           whose step, is known; and that of the compute events alone.
-- @materialize session
-- @requires device_events launches
-- @caveat   Events of XLA count as known: the step is told by the time of the event itself where
--           the launch is not.
WITH
    launched AS (
        SELECT DISTINCT trace, event_id
        FROM launches
        WHERE launch_ts_ns IS NOT NULL
    ),

    events AS (
        SELECT
            d.trace, d.class, d.source = 'xla' OR l.event_id IS NOT NULL AS known
        FROM device_events AS d
        LEFT JOIN launched AS l ON l.trace = d.trace AND l.event_id = d.event_id
        WHERE d.class IN ('comm', 'compute', 'copy', 'set', 'graph')
    )

SELECT
    trace,
    CAST(count(*) FILTER (WHERE known) AS DOUBLE) / count(*) AS launch_coverage_ratio,
    CAST(count(*) FILTER (WHERE known AND class = 'compute') AS DOUBLE)
        / nullif(count(*) FILTER (WHERE class = 'compute'), 0) AS compute_coverage_ratio
FROM events
GROUP BY trace
