-- @view     _call_idle
-- @summary  How long the devices of a rank idle before each matched call, by part of idle time.
-- @materialize session
-- @partition rank
-- @requires _call_spans _idle_parts
-- @caveat   Of the steps that count; call is NULL for what lies after the last call of the trace.
--           Sums over the devices of a rank.
SELECT
    i.trace, i.rank, c.place, c.call, i.part, sum(i.end_ns - i.start_ns) AS time_ns
FROM _idle_parts AS i
ASOF LEFT JOIN _call_spans AS c
    ON c.trace = i.trace AND c.rank = i.rank AND c.device_key = coalesce(i.device, -1)
    AND c.ts_ns >= i.end_ns
WHERE coalesce(c.is_counted, TRUE) AND i.rank IS NOT NULL AND i.part <> 'other'
GROUP BY i.trace, i.rank, c.place, c.call, i.part
