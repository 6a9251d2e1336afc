-- @view     _hang_members
-- @summary  Ranks of each process group of two or more ingested ranks, whether they call or not,
--           with their calls by kind.
-- @materialize session
-- @requires _hang_calls ranks collectives
-- @reads    process_groups
-- @caveat   pg_key is 0 for all ranks whose calls state no group. calls is NULL for a rank that
--           makes none. calls_by_kind has every kind that a rank of the group calls.
WITH
    ingested AS (
        SELECT r.trace, r.rank
        FROM ranks AS r
        SEMI JOIN collectives AS c ON c.trace = r.trace AND c.source = r.source
    ),

    counts AS (
        SELECT
            trace, pg_key, rank, collective,
            count(*) AS calls,
            count(collective_id) AS matched_calls
        FROM _hang_calls
        GROUP BY trace, pg_key, rank, collective
    ),

    stated AS (
        SELECT trace, pg_id AS pg_key, unnest(ranks) AS rank
        FROM process_groups
    ),

    members AS (
        SELECT s.trace, s.pg_key, s.rank
        FROM stated AS s
        INNER JOIN ingested AS i ON i.trace = s.trace AND i.rank = s.rank
        UNION
        SELECT trace, pg_key, rank
        FROM counts
    ),

    compared AS (
        SELECT
            trace, pg_key, rank, count(*) OVER (PARTITION BY trace, pg_key) AS ranks_compared
        FROM members
        QUALIFY ranks_compared > 1
    )

SELECT
    m.trace, m.pg_key, m.rank, m.ranks_compared,
    TRY_CAST(sum(c.calls) AS BIGINT) AS calls,
    TRY_CAST(sum(c.matched_calls) AS BIGINT) AS matched_calls,
    map(
        array_agg(k.collective ORDER BY k.collective),
        array_agg(coalesce(c.calls, 0) ORDER BY k.collective)
    ) AS calls_by_kind
FROM compared AS m
INNER JOIN (SELECT DISTINCT trace, pg_key, collective FROM counts) AS k
    ON k.trace = m.trace AND k.pg_key = m.pg_key
LEFT JOIN counts AS c
    ON c.trace = m.trace AND c.pg_key = m.pg_key AND c.rank = m.rank
    AND c.collective = k.collective
GROUP BY m.trace, m.pg_key, m.rank, m.ranks_compared
