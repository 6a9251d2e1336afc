-- @view     _hang_misses
-- @summary  Places of a compared group at which a rank does not call and others do: before its
--           first call, between its calls, and after its last.
-- @requires _hang_spots
-- @caveat   One row for each series of a rank. missing_inside is NULL without sequence numbers, and
--           counts from where the recording has every call; what is earlier counts to
--           missing_begin.
WITH
    spot_counts AS (
        SELECT trace, pg_key, series, max(spot) AS spot_count
        FROM _hang_spots
        GROUP BY trace, pg_key, series
    ),

    gaps AS (
        SELECT
            trace, pg_key, series, rank, spot, has_seq, known,
            lead(spot) OVER (PARTITION BY trace, pg_key, series, rank ORDER BY spot) - spot - 1
                AS skipped
        FROM _hang_spots
    ),

    spans AS (
        SELECT
            g.trace, g.pg_key, g.series, g.rank,
            max(g.spot) AS last_spot,
            min(g.spot) - 1 + coalesce(sum(g.skipped) FILTER (WHERE NOT g.known), 0)
                AS missing_begin,
            CASE WHEN g.has_seq
                THEN coalesce(sum(g.skipped) FILTER (WHERE g.known), 0)
            END AS missing_inside,
            s.spot_count - max(g.spot) AS missing_end,
            min(g.spot) FILTER (WHERE g.known AND g.skipped > 0) + 1 AS first_missing_spot
        FROM gaps AS g
        INNER JOIN spot_counts AS s
            ON s.trace = g.trace AND s.pg_key = g.pg_key AND s.series = g.series
        GROUP BY g.trace, g.pg_key, g.series, g.rank, g.has_seq, s.spot_count
    ),

    positions AS (
        SELECT DISTINCT trace, pg_key, series, spot, position
        FROM _hang_spots
    )

SELECT
    s.trace, s.pg_key, s.series, s.rank, s.last_spot,
    CAST(s.missing_begin AS BIGINT) AS missing_begin,
    CAST(s.missing_inside AS BIGINT) AS missing_inside,
    s.missing_end,
    CASE WHEN s.missing_inside > 0 THEN p.position END AS first_missing_seq
FROM spans AS s
LEFT JOIN positions AS p
    ON p.trace = s.trace AND p.pg_key = s.pg_key AND p.series = s.series
    AND p.spot = s.first_missing_spot
