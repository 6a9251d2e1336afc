-- @view     _call_launches
-- @summary  When the host launched each communication event, where that is known.
-- @materialize session
-- @partition rank
-- @requires collectives launches
SELECT c.trace, c.rank, c.event_id, l.launch_ts_ns
FROM collectives AS c
INNER JOIN launches AS l ON l.trace = c.trace AND l.event_id = c.event_id
WHERE l.launch_ts_ns IS NOT NULL
