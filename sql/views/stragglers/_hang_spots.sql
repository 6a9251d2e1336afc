-- @view     _hang_spots
-- @summary  What each rank of a compared group calls at each place at which it calls.
-- @materialize session
-- @requires _hang_places
-- @caveat   comparable: its calls there are of one kind, and their order is known.
SELECT
    trace, pg_key, series, rank, spot, has_seq, position,
    bool_or(known) AS known,
    min(collective) AS collective,
    -- Calls of several kinds may share a number, and one cannot say which is which.
    min(collective) = max(collective) AND bool_and(known OR has_seq) AS comparable
FROM _hang_places
WHERE spot IS NOT NULL
GROUP BY trace, pg_key, series, rank, spot, has_seq, position
