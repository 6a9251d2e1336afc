-- @view     _rank_list
-- @summary  Ingested ranks of each trace, once each.
-- @requires ranks
SELECT DISTINCT trace, rank
FROM ranks
