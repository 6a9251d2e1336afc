-- @view     _copy_rates
-- @summary  Copies that have a duration, with what they move and how long they take.
-- @materialize session
-- @partition rank
-- @requires copies
SELECT trace, rank, direction, bytes, dur_ns
FROM copies
WHERE dur_ns IS NOT NULL
