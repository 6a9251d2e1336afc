-- @view     _hang_kinds
-- @summary  Ranks that make another kind of call than most at the first place of their group where
--           kinds differ.
-- @requires _hang_spots
-- @caveat   Of equally many ranks, the kind of the lowest one counts as right. Only the first place
--           counts: what follows may differ because of it.
WITH
    differing AS (
        SELECT trace, pg_key, min(spot) AS spot
        FROM (
            SELECT trace, pg_key, spot
            FROM _hang_spots
            WHERE pg_key <> 0 AND comparable
            GROUP BY trace, pg_key, spot
            HAVING min(collective) <> max(collective)
        ) AS d
        GROUP BY trace, pg_key
    ),

    differing_ranks AS (
        SELECT s.trace, s.pg_key, s.rank, s.spot, s.collective, s.has_seq, s.position
        FROM _hang_spots AS s
        INNER JOIN differing AS d
            ON d.trace = s.trace AND d.pg_key = s.pg_key AND d.spot = s.spot
        WHERE s.comparable
    ),

    expected AS (
        SELECT
            trace, pg_key, collective, first_rank,
            lead(rank_count) OVER preferred = rank_count AS tied
        FROM (
            SELECT trace, pg_key, collective, count(*) AS rank_count, min(rank) AS first_rank
            FROM differing_ranks
            GROUP BY trace, pg_key, collective
        ) AS k
        WINDOW preferred AS (PARTITION BY trace, pg_key ORDER BY rank_count DESC, first_rank)
        QUALIFY row_number() OVER preferred = 1
    )

SELECT
    d.trace, d.pg_key, d.rank, d.spot AS wrong_place, d.collective AS wrong_kind,
    e.collective AS right_kind,
    CASE WHEN d.has_seq THEN d.position END AS wrong_seq,
    'calls ' || d.collective || ' where '
        || CASE WHEN e.tied
            THEN 'as many ranks, rank ' || e.first_rank || ' among them, call '
            ELSE 'most ranks call '
        END
        || e.collective
        || CASE WHEN d.has_seq
            THEN ' (sequence number ' || d.position || ')'
            ELSE ' (call ' || d.spot || ')'
        END AS reason
FROM differing_ranks AS d
INNER JOIN expected AS e ON e.trace = d.trace AND e.pg_key = d.pg_key
WHERE d.collective <> e.collective
