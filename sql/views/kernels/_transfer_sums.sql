-- @view     _transfer_sums
-- @summary  How long the copies and sets of each rank take.
-- @materialize session
-- @partition rank
-- @requires device_events
-- @caveat   An asynchronous pair of XLA runs beside the operations, and is none of them.
SELECT trace, rank, class, sum(dur_ns) AS dur_ns
FROM device_events
WHERE class IN ('copy', 'set') AND dur_ns IS NOT NULL
    AND NOT (source = 'xla' AND coalesce(json_exists(args, '$."$done"'), false))
GROUP BY trace, rank, class
