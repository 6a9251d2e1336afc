-- @view     _match_coverage
-- @summary  Share of the communication events that are in a matched call: of the events of groups
--           of more than one rank, or of unknown size.
-- @materialize session
-- @requires collectives
-- @caveat   An event is in no call where its group is not known, where only one rank of the group
--           was ingested, and where one of those ingested lacks the call: so too a send or receive
--           that not every rank of the group has.
SELECT
    trace,
    CAST(count(*) FILTER (WHERE collective_id IS NOT NULL) AS DOUBLE) / count(*) AS match_coverage_ratio
FROM collectives
WHERE group_size IS DISTINCT FROM 1
GROUP BY trace
