-- @view     _sized_calls
-- @summary  Communication calls of each kind that carry something, and those of known size and time.
-- @requires _comm_calls
SELECT
    trace,
    collective,
    count(*) AS calls,
    count(*) FILTER (WHERE message_bytes > 0 AND transfer_ns > 0) AS sized_calls
FROM _comm_calls
WHERE collective <> 'barrier' AND group_size IS DISTINCT FROM 1
GROUP BY trace, collective
