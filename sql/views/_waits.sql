-- @view     _waits
-- @summary  How long each rank of a matched call waited for the last one to enter it.
-- @requires collectives collective_calls
-- @caveat   Starts are compared as recorded; no rank waits longer than its own event lasts.
SELECT
    c.trace, c.source, c.rank, c.collective_id, c.collective, c.device, c.step, c.ts_ns, c.dur_ns,
    greatest(least(m.last_start_ns - c.ts_ns, c.dur_ns), 0) AS wait_ns,
    c.rank = m.last_rank AS is_last
FROM collectives AS c
INNER JOIN collective_calls AS m
    ON m.trace = c.trace AND m.source = c.source AND m.collective_id = c.collective_id
WHERE c.dur_ns IS NOT NULL
