-- @derived  _collective_matches
-- @summary  Which events of the ranks are one call: by sequence number, else in order.
-- @requires _collective_events
-- @reads    process_groups _group_ids ranks
-- @column   event_id BIGINT dim - | The event.
-- @column   collective_id BIGINT value - | The call that it is part of.
-- @column   matched_by VARCHAR value - | seq, order or shift.
-- @caveat   Where ranks have different numbers of calls, each takes the shift against the reference
--           with the least spread of end-time differences: ranks leave a call together, and a
--           constant clock offset does not matter.
-- @source   product 6.1
WITH
    events AS (
        SELECT
            c.source, c.event_id, c.rank, c.ts_ns, c.ts_ns + c.dur_ns AS end_ns, c.seq,
            -- Calls that follow each other: of a kind, or of an operation where the program says
            -- it.
            concat_ws(' ', c.collective, c.operation) AS series,
            coalesce(g.pg_id, 0) AS pg_key
        FROM _collective_events AS c
        LEFT JOIN _group_ids AS g
            ON g.pg_name = c.pg_name AND g.ranks_key IS NOT DISTINCT FROM c.ranks_key
        INNER JOIN (SELECT source, count(DISTINCT rank) AS rank_count FROM ranks GROUP BY source) AS n
            ON n.source = c.source
        WHERE c.dur_ns IS NOT NULL
            -- Who is in a group of some of the ranks must be known.
            AND (g.pg_id IS NOT NULL OR c.stated_size IS NULL OR c.stated_size >= n.rank_count)
            -- So must the pairs of a permute: of one that only its name tells nobody knows them.
            AND NOT (c.collective = 'send_recv' AND c.coll_source = 'op_name')
    ),

    ingested AS (
        SELECT DISTINCT source, rank
        FROM ranks
    ),

    -- Ingested ranks of each group; 0 stands for "nothing states the group": all of them.
    members AS (
        SELECT i.source, g.pg_key, i.rank
        FROM (SELECT DISTINCT pg_id AS pg_key, unnest(ranks) AS rank FROM process_groups) AS g
        INNER JOIN ingested AS i ON i.rank = g.rank
        UNION ALL
        SELECT DISTINCT e.source, e.pg_key, e.rank
        FROM events AS e
        INNER JOIN process_groups AS g ON g.pg_id = e.pg_key AND g.ranks IS NULL
        UNION ALL
        SELECT source, 0, rank
        FROM ingested
    ),

    sizes AS (
        SELECT source, pg_key, count(*) AS member_count
        FROM members
        GROUP BY source, pg_key
        HAVING count(*) >= 2
    ),

    sequenced AS (
        SELECT source, pg_key, series, bool_and(seq IS NOT NULL) AS has_seq
        FROM events
        GROUP BY source, pg_key, series
    ),

    ordered AS (
        SELECT
            e.source, e.event_id, e.rank, e.series, e.pg_key, e.ts_ns, e.end_ns, e.seq, s.has_seq,
            row_number() OVER (
                PARTITION BY e.source, e.rank, e.pg_key, e.series ORDER BY e.ts_ns, e.event_id
            ) - 1 AS place,
            row_number() OVER (
                PARTITION BY e.source, e.rank, e.pg_key, e.series, e.seq ORDER BY e.ts_ns, e.event_id
            ) - 1 AS repeat,
            count(*) OVER (PARTITION BY e.source, e.rank, e.pg_key, e.series) AS call_count
        FROM events AS e
        INNER JOIN sequenced AS s
            ON s.source = e.source AND s.pg_key = e.pg_key AND s.series = e.series
        INNER JOIN sizes AS z ON z.source = e.source AND z.pg_key = e.pg_key
    ),

    most AS (
        SELECT source, pg_key, series, max(call_count) AS call_count, min(call_count) AS least
        FROM ordered
        WHERE NOT has_seq
        GROUP BY source, pg_key, series
    ),

    reference_ranks AS (
        SELECT o.source, o.pg_key, o.series, m.call_count, m.least, min(o.rank) AS rank
        FROM ordered AS o
        INNER JOIN most AS m
            ON m.source = o.source
            AND m.pg_key = o.pg_key
            AND m.series = o.series
            AND m.call_count = o.call_count
        GROUP BY o.source, o.pg_key, o.series, m.call_count, m.least
    ),

    -- Every shift of a rank that misses calls, with the end-time difference of every pair. Of very
    -- many pairs (calls x shifts) every n-th call is looked at.
    shift_pairs AS (
        SELECT s.source, s.rank, s.pg_key, s.series, s.shift, s.end_ns - r.end_ns AS difference_ns
        FROM (
            SELECT
                o.source, o.rank, o.pg_key, o.series, o.place, o.end_ns,
                f.rank AS reference_rank,
                unnest(range(0, f.call_count - o.call_count + 1)) AS shift
            FROM ordered AS o
            INNER JOIN reference_ranks AS f
                ON f.source = o.source AND f.pg_key = o.pg_key AND f.series = o.series
            WHERE o.call_count < f.call_count
                AND o.place % (1 + o.call_count * (f.call_count - o.call_count + 1) // 2000000) = 0
        ) AS s
        INNER JOIN ordered AS r
            ON r.source = s.source
            AND r.rank = s.reference_rank
            AND r.pg_key = s.pg_key
            AND r.series = s.series
            AND r.place = s.place + s.shift
    ),

    medians AS (
        SELECT source, rank, pg_key, series, shift, median(difference_ns) AS median_ns
        FROM shift_pairs
        GROUP BY source, rank, pg_key, series, shift
    ),

    spreads AS (
        SELECT
            p.source, p.rank, p.pg_key, p.series, p.shift, m.median_ns,
            median(abs(p.difference_ns - m.median_ns)) AS spread_ns
        FROM shift_pairs AS p
        INNER JOIN medians AS m
            ON m.source = p.source
            AND m.rank = p.rank
            AND m.pg_key = p.pg_key
            AND m.series = p.series
            AND m.shift = p.shift
        GROUP BY p.source, p.rank, p.pg_key, p.series, p.shift, m.median_ns
    ),

    shifts AS (
        SELECT source, rank, pg_key, series, shift
        FROM spreads
        QUALIFY row_number() OVER (
            PARTITION BY source, rank, pg_key, series ORDER BY spread_ns, abs(median_ns), shift DESC
        ) = 1
    ),

    placed AS (
        SELECT
            o.source, o.event_id, o.rank, o.pg_key, o.series, o.ts_ns,
            CASE WHEN o.has_seq THEN o.seq ELSE o.place + coalesce(s.shift, 0) END AS call_place,
            CASE WHEN o.has_seq THEN o.repeat ELSE 0 END AS repeat,
            CASE
                WHEN o.has_seq THEN 'seq'
                WHEN f.least < f.call_count THEN 'shift'
                ELSE 'order'
            END AS matched_by
        FROM ordered AS o
        LEFT JOIN shifts AS s
            ON s.source = o.source
            AND s.rank = o.rank
            AND s.pg_key = o.pg_key
            AND s.series = o.series
        LEFT JOIN reference_ranks AS f
            ON f.source = o.source AND f.pg_key = o.pg_key AND f.series = o.series
    ),

    -- A call counts when every ingested rank of its group has it.
    complete AS (
        SELECT p.source, p.pg_key, p.series, p.call_place, p.repeat, min(p.ts_ns) AS first_start_ns
        FROM placed AS p
        INNER JOIN sizes AS z ON z.source = p.source AND z.pg_key = p.pg_key
        GROUP BY p.source, p.pg_key, p.series, p.call_place, p.repeat, z.member_count
        -- A rank has each place once.
        HAVING count(*) = z.member_count
    ),

    numbered AS (
        SELECT
            source, pg_key, series, call_place, repeat,
            row_number() OVER (
                ORDER BY source, first_start_ns, pg_key, series, call_place, repeat
            ) AS collective_id
        FROM complete
    )

SELECT p.event_id, n.collective_id, p.matched_by
FROM placed AS p
INNER JOIN numbered AS n
    ON n.source = p.source
    AND n.pg_key = p.pg_key
    AND n.series = p.series
    AND n.call_place = p.call_place
    AND n.repeat = p.repeat
ORDER BY p.event_id
