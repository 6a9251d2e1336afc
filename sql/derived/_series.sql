-- @derived  _series
-- @summary  Series of calls that follow each other: of a group and a kind, of two ranks of it that
--           send and receive, or of an operation where the program says it. One row for all that
--           events say of it.
-- @requires _call_counts
-- @reads    process_groups _group_ids ranks
-- @column   source VARCHAR value - | Profiler.
-- @column   collective VARCHAR value - | Kind of call.
-- @column   operation VARCHAR value - | Operation of the program.
-- @column   coll_source VARCHAR value - | What says the kind.
-- @column   pg_name VARCHAR value - | Name of the group.
-- @column   ranks_key BIGINT value - | As in _collective_events.
-- @column   stated_size BIGINT value - | Size of the group, where it is stated.
-- @column   series_id BIGINT value - | The series, in the order of profiler, group and kind.
-- @column   matched_by VARCHAR value - | seq, order, or shift where ranks have different numbers.
-- @column   is_pair BOOLEAN value - | Whether it is of two ranks of the group.
-- @column   member_count BIGINT value count | Ingested ranks of the group, or of the pair.
-- @column   call_count BIGINT value count | Events of the ranks that have most.
-- @column   reference_rank BIGINT value - | The first of these ranks.
-- @caveat   A pair of which one rank misses calls has no series: which of them match is not known.
-- @source   product 6.1
WITH
    stated AS (
        SELECT
            c.source, c.rank, c.collective, c.operation, c.coll_source, c.pg_name, c.ranks_key,
            c.stated_size, c.timed_count, c.numbered_count,
            c.source <> 'xla' AND coalesce(c.operation LIKE 'pair %', false) AS is_pair,
            -- The send of one rank is the receive of the other.
            CASE WHEN c.source <> 'xla' AND c.operation LIKE 'pair %' THEN c.operation
                ELSE concat_ws(' ', c.collective, c.operation) END AS series,
            coalesce(g.pg_id, 0) AS pg_key
        FROM _call_counts AS c
        LEFT JOIN _group_ids AS g
            ON g.pg_name = c.pg_name AND g.ranks_key IS NOT DISTINCT FROM c.ranks_key
        INNER JOIN (SELECT source, count(DISTINCT rank) AS rank_count FROM ranks GROUP BY source) AS n
            ON n.source = c.source
        WHERE c.timed_count > 0
            -- Who is in a group of some of the ranks must be known.
            AND (g.pg_id IS NOT NULL OR c.stated_size IS NULL OR c.stated_size >= n.rank_count)
            -- So must the pairs of a permute: of one that only its name tells nobody knows them.
            AND NOT (c.collective = 'send_recv' AND c.coll_source = 'op_name')
            -- And the group whose places a pair is of.
            AND NOT (g.pg_id IS NULL AND c.source <> 'xla' AND coalesce(c.operation LIKE 'pair %', false))
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
        SELECT DISTINCT s.source, s.pg_key, s.rank
        FROM stated AS s
        INNER JOIN process_groups AS g ON g.pg_id = s.pg_key AND g.ranks IS NULL
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

    per_rank AS (
        SELECT
            s.source, s.pg_key, s.series, s.rank, s.is_pair,
            CASE WHEN s.is_pair THEN 2 ELSE z.member_count END AS member_count,
            CAST(sum(s.timed_count) AS BIGINT) AS call_count,
            -- Sequence numbers of sends count those of the rank, whoever they are to.
            NOT s.is_pair AND sum(s.timed_count) = sum(s.numbered_count) AS has_seq
        FROM stated AS s
        INNER JOIN sizes AS z ON z.source = s.source AND z.pg_key = s.pg_key
        GROUP BY s.source, s.pg_key, s.series, s.rank, s.is_pair, z.member_count
    ),

    series AS (
        SELECT
            source, pg_key, series, is_pair, member_count,
            row_number() OVER (ORDER BY source, pg_key, series) AS series_id,
            CASE
                WHEN bool_and(has_seq) THEN 'seq'
                WHEN min(call_count) < max(call_count) THEN 'shift'
                ELSE 'order'
            END AS matched_by,
            max(call_count) AS call_count,
            arg_max(rank, {call_count: call_count, before: -rank}) AS reference_rank
        FROM per_rank
        GROUP BY source, pg_key, series, is_pair, member_count
        -- A small send may end before its receive begins, so that ends say no shift.
        HAVING NOT (is_pair AND min(call_count) < max(call_count))
    )

SELECT DISTINCT
    s.source, s.collective, s.operation, s.coll_source, s.pg_name, s.ranks_key, s.stated_size,
    e.series_id, e.matched_by, e.is_pair, e.member_count, e.call_count, e.reference_rank
FROM stated AS s
INNER JOIN series AS e ON e.source = s.source AND e.pg_key = s.pg_key AND e.series = s.series
