-- @view     _launch_coverage
-- @summary  Share of the device events (kernels, copies, sets) of a trace whose launch, and so
--           whose step, is known; and that of the compute events alone.
-- @materialize session
-- @requires _launch_counts
-- @caveat   Events of XLA count as known: the step is told by the time of the event itself where
--           the launch is not.
SELECT
    trace,
    CAST(sum(known_events) AS DOUBLE) / sum(events) AS launch_coverage_ratio,
    CAST(sum(known_compute_events) AS DOUBLE) / nullif(sum(compute_events), 0)
        AS compute_coverage_ratio
FROM _launch_counts
GROUP BY trace
