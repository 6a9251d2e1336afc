-- @view     _range_dims
-- @summary  Parallel dimension that the range around a communication event names.
-- @materialize session
-- @partition rank
-- @requires collectives _range_meanings
-- @reads    launches
-- @caveat   Of calls on the host (gloo) the call is the range itself.
SELECT c.trace, c.rank, c.event_id, m.dim AS range_dim
FROM collectives AS c
LEFT JOIN launches AS l ON l.trace = c.trace AND l.event_id = c.event_id
INNER JOIN _range_meanings AS m
    ON m.trace = c.trace AND m.event_id = coalesce(l.range_event_id, c.event_id)
WHERE m.dim IS NOT NULL
