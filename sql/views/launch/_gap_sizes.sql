-- @view     _gap_sizes
-- @summary  How many idle gaps of each length the devices of a rank have.
-- @materialize session
-- @partition rank
-- @requires _gaps
SELECT trace, rank, gap_ns, count(*) AS gaps, sum(gap_ns) AS idle_ns
FROM _gaps
GROUP BY trace, rank, gap_ns
ORDER BY trace, rank, gap_ns
