-- @view     _sized_calls
-- @summary  Communication calls of more than one rank of each kind: those that carry something, and
--           how many of all state a size, carry bytes, have one size for all ranks, and take time.
-- @requires _comm_calls
-- @caveat   calls leaves out those that are known to be empty: a size of 0 is known, and says
--           nothing of a bandwidth.
SELECT
    trace,
    collective,
    count(*) FILTER (WHERE message_bytes IS DISTINCT FROM 0) AS calls,
    count(message_bytes) AS stated_calls,
    count(*) FILTER (WHERE message_bytes > 0) AS filled_calls,
    count(*) FILTER (WHERE message_bytes > 0 AND NOT uneven) AS even_calls,
    count(*) FILTER (WHERE message_bytes > 0 AND NOT uneven AND transfer_ns > 0) AS even_timed_calls,
    count(*) FILTER (WHERE message_bytes > 0 AND transfer_ns > 0) AS sized_calls
FROM _comm_calls
WHERE collective <> 'barrier' AND group_size IS DISTINCT FROM 1
GROUP BY trace, collective
