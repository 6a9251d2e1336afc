-- @view     _hang_places
-- @summary  Place of each call of a compared group: one number (spot) for the calls of all ranks
--           that belong together.
-- @materialize session
-- @requires _hang_calls _hang_members
-- @caveat   A place is a sequence number, else the order of launches, aligned by the median
--           difference of places of matched calls; where nothing is matched it counts from the
--           front, if no kind is called by all ranks; else there is none. known: the order of the
--           rank is known from here on. after_matched: no matched call follows.
WITH
    -- From where on the order of a rank is known, and where its matched calls end.
    orders AS (
        SELECT
            c.trace, c.pg_key, c.series, c.rank,
            coalesce(max(c.place) FILTER (WHERE c.collective_id IS NOT NULL), 0) AS last_matched,
            CASE
                WHEN min(c.device) IS DISTINCT FROM max(c.device) AND NOT c.has_seq
                    THEN max(c.place)
                WHEN min(c.device) IS DISTINCT FROM max(c.device)
                    OR min(c.stream) IS DISTINCT FROM max(c.stream)
                    THEN coalesce(max(c.place) FILTER (WHERE c.loose), 0)
                ELSE 0
            END AS known_after
        FROM _hang_calls AS c
        SEMI JOIN _hang_members AS m ON m.trace = c.trace AND m.pg_key = c.pg_key
        GROUP BY c.trace, c.pg_key, c.series, c.rank, c.has_seq
    ),

    -- Without numbers, the place of a matched call on the lowest rank is its place on all.
    anchors AS (
        SELECT
            trace, pg_key, series, rank, place,
            first_value(place) OVER (
                PARTITION BY trace, collective_id ORDER BY rank, place
            ) AS right_place
        FROM _hang_calls
        WHERE collective_id IS NOT NULL AND NOT has_seq
    ),

    offsets AS (
        SELECT
            trace, pg_key, series, rank,
            CAST(floor(median(right_place - place)) AS BIGINT) AS ahead
        FROM anchors
        GROUP BY trace, pg_key, series, rank
    ),

    -- Groups of which nothing is matched although nothing could be: no kind is called by all.
    unlike AS (
        SELECT k.trace, k.pg_key
        FROM (
            SELECT trace, pg_key, collective, count(DISTINCT rank) AS rank_count
            FROM _hang_calls
            WHERE pg_key <> 0
            GROUP BY trace, pg_key, collective
        ) AS k
        INNER JOIN (
            SELECT trace, pg_key, count(DISTINCT rank) AS callers
            FROM _hang_calls
            GROUP BY trace, pg_key
        ) AS t ON t.trace = k.trace AND t.pg_key = k.pg_key
        GROUP BY k.trace, k.pg_key, t.callers
        HAVING max(k.rank_count) < t.callers
    ),

    placed AS (
        SELECT
            c.trace, c.pg_key, c.series, c.rank, c.collective, c.dur_ns, c.has_seq,
            CASE
                WHEN c.has_seq THEN c.seq
                WHEN a.ahead IS NOT NULL THEN c.place + a.ahead
                WHEN u.pg_key IS NOT NULL THEN c.place
            END AS position,
            c.place > o.known_after AS known,
            c.place > o.last_matched AS after_matched
        FROM _hang_calls AS c
        INNER JOIN orders AS o
            ON o.trace = c.trace AND o.pg_key = c.pg_key AND o.series = c.series AND o.rank = c.rank
        LEFT JOIN offsets AS a
            ON a.trace = c.trace AND a.pg_key = c.pg_key AND a.series = c.series AND a.rank = c.rank
        LEFT JOIN unlike AS u ON u.trace = c.trace AND u.pg_key = c.pg_key
    )

SELECT
    trace, pg_key, series, rank, collective, dur_ns, has_seq, position, known, after_matched,
    CASE WHEN position IS NOT NULL
        THEN dense_rank() OVER (PARTITION BY trace, pg_key, series ORDER BY position NULLS LAST)
    END AS spot
FROM placed
