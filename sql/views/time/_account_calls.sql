-- @view     _account_calls
-- @summary  Shares of matched calls with when their transfer starts, and the rank that they wait
--           for until then.
-- @partition rank
-- @requires collectives collective_calls
-- @reads    _waits
-- @caveat   A matched call transfers for as long as its shortest event, at the end of each of its
--           events; before that the rank waits for the others. last_rank is NULL where that is the
--           rank itself. device_key is -1 for no device.
SELECT
    c.trace, c.rank, coalesce(c.device, -1) AS device_key,
    nullif(w.last_rank, c.rank) AS last_rank, c.ts_ns AS start_ns,
    c.ts_ns + c.dur_ns AS end_ns,
    greatest(c.ts_ns, c.ts_ns + c.dur_ns - m.transfer_ns) AS transfer_ns
FROM collectives AS c
INNER JOIN collective_calls AS m
    ON m.trace = c.trace AND m.collective_id = c.collective_id
LEFT JOIN _waits AS w
    ON w.trace = c.trace AND w.event_id = c.event_id AND w.aligned = w.by_itself
WHERE c.dur_ns > 0
