-- @view     _size_coverage
-- @summary  Share of the communication calls of more than one rank whose size and time are known:
--           of each kind, and of all (collective NULL).
-- @requires _sized_calls
SELECT
    trace, collective,
    CAST(sum(sized_calls) AS DOUBLE) / nullif(sum(calls), 0) AS size_coverage_ratio
FROM _sized_calls
GROUP BY GROUPING SETS ((trace, collective), (trace))
