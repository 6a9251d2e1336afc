-- @view     _comm_steps
-- @summary  Time in which each rank communicates in each of its steps: the union of what the step
--           launched, over the devices of the rank; NULL where the rank communicates and no launch
--           of that is known.
-- @requires collectives steps _comm_launches
WITH
    spans AS (
        SELECT
            trace, rank, step, device,
            interval_union_ns(array_agg({start_ns: ts_ns, end_ns: ts_ns + dur_ns})) AS union_ns
        FROM collectives
        WHERE step IS NOT NULL AND dur_ns IS NOT NULL
        GROUP BY trace, rank, step, device
    )

-- A step without communication counts as 0; one that the rank counts twice is one.
SELECT
    t.trace, t.rank, t.step,
    CASE WHEN coalesce(max(l.launched_calls) > 0, true)
        THEN TRY_CAST(coalesce(sum(s.union_ns), 0) AS BIGINT) END AS comm_ns
FROM (SELECT DISTINCT trace, rank, step FROM steps) AS t
LEFT JOIN spans AS s ON s.trace = t.trace AND s.rank = t.rank AND s.step = t.step
LEFT JOIN _comm_launches AS l ON l.trace = t.trace AND l.rank = t.rank
GROUP BY t.trace, t.rank, t.step
