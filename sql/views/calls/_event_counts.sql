-- @view     _event_counts
-- @summary  Communication events of all ranks, by rank and by kind: all of them, and those whose
--           size and duration are known (sized).
-- @requires ranks
-- @reads    _rank_list collectives
WITH
    events AS (
        SELECT e.trace, e.rank, e.collective, k.what
        FROM collectives AS e
        CROSS JOIN (VALUES ('all'), ('sized')) AS k (what)
        WHERE k.what = 'all' OR (e.message_bytes > 0 AND e.dur_ns > 0)
    ),

    per_rank AS (
        SELECT r.trace, r.rank, k.what, count(e.collective) AS event_count
        FROM _rank_list AS r
        CROSS JOIN (VALUES ('all'), ('sized')) AS k (what)
        LEFT JOIN events AS e ON e.trace = r.trace AND e.rank = r.rank AND e.what = k.what
        GROUP BY r.trace, r.rank, k.what
    ),

    rank_totals AS (
        SELECT
            trace, what,
            TRY_CAST(sum(event_count) AS BIGINT) AS event_count,
            count(*) AS rank_count,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(event_count ORDER BY rank))
                AS per_rank
        FROM per_rank
        GROUP BY trace, what
    ),

    types AS (
        SELECT trace, what, collective, count(*) AS event_count
        FROM events
        GROUP BY trace, what, collective
    ),

    type_totals AS (
        SELECT
            trace, what,
            map(array_agg(collective ORDER BY collective), array_agg(event_count ORDER BY collective))
                AS by_type
        FROM types
        GROUP BY trace, what
    )

SELECT
    r.trace, r.what, r.event_count, r.rank_count, r.per_rank,
    coalesce(t.by_type, map([]::VARCHAR[], []::BIGINT[])) AS by_type
FROM rank_totals AS r
LEFT JOIN type_totals AS t ON t.trace = r.trace AND t.what = r.what
