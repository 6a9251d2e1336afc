-- @view     _comm_coverage
-- @summary  Share of the communication time whose launch is known, and with it the step.
-- @requires _comm_launches
SELECT trace, CAST(sum(launched_ns) AS DOUBLE) / nullif(sum(comm_ns), 0) AS launch_coverage_ratio
FROM _comm_launches
GROUP BY trace
