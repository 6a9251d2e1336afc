-- @metric   hang_suspects
-- @version  1
-- @area     stragglers
-- @summary  Ranks whose calls do not fit those of their process group: calls that they miss, make
--           in another order, or stop making while the others wait.
-- @grain    trace
-- @requires collectives
-- @reads    _hang_calls _hang_kinds _hang_members _hang_misses _hang_waits process_groups ranks
-- @value    suspect_ranks_count
-- @answer   CASE WHEN len(suspect_ranks) = 0 THEN 'no rank is suspect' ELSE 'suspect: rank ' ||
--           list_aggregate(list_transform(suspect_ranks[1:8], lambda r: CAST(r AS VARCHAR)),
--           'string_agg', ', ') || CASE WHEN len(suspect_ranks) > 8 THEN ' and more' ELSE '' END
--           END
-- @coverage grouped_ratio | the process group
-- @null     no process group has calls of two ingested ranks
-- @check    (SELECT count(DISTINCT rank) FROM ranks) > 1 | the trace has fewer than two ranks
-- @check    (SELECT count(*) FROM collectives WHERE collective NOT IN ('send', 'recv', 'send_recv',
--           'unknown')) > 0
--           | the trace has no calls that all ranks of a group make
-- @param    long_factor DOUBLE 10 | A rank sat and waited in a call after its last matched one that
--           lasts so many times the median of the matched calls of that kind in the group (none: of
--           the group; none: of the trace).
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   suspect_ranks_count BIGINT value count lower | Ranks that are suspect in a process
--           group; 0 where all calls fit.
-- @column   suspect_ranks LIST value - | Those ranks. In a group a rank is suspect that (1) makes
--           another kind of call than most ranks at the first place where kinds differ (of equally
--           many, the kind of the lowest rank counts as right); (2) lacks a sequence number between
--           two of its own; (3) makes no call of the group; (4) ends before a call in which another
--           rank waits. With (3) and (4), not if it waits itself, in whatever group: it is a victim
--           then; unless all who would be suspect wait, in groups whose ranks are all ingested:
--           they wait for each other in a circle, and all of them are.
-- @column   groups_count BIGINT value count | Process groups with two or more ingested ranks, which
--           were compared.
-- @column   grouped_ratio DOUBLE value ratio | Share of the calls whose process group the trace
--           states; the others count as one group of all ranks that make them, each kind by itself,
--           of which (4) alone is judged.
-- @column   by_group LIST value - | Of each process group, suspect ones first: name, description,
--           size, ranks compared, matched calls, calls at the most of a rank, suspect ranks, and
--           why (victims too).
-- @column   by_rank LIST value - | Of each rank and process group, suspect ones first: calls, calls
--           by kind, matched calls; places at which others call and it does not: before its first
--           call; between its calls, with the first such sequence number (NULL without these;
--           counted only from where its recording has every call, what is earlier counts as before
--           its first); after its last. If suspect for its kind: the place (from 1), its sequence
--           number, the kind and the right one. Last call and how long it lasts; suspect and why,
--           or why not. Places are the sequence numbers of the group, else the order of launches,
--           aligned by the median difference of places of matched calls (if nothing is matched:
--           from the front, where no kind is called by all ranks; else nothing is compared).
-- @caveat   A call that never ends is in no trace: what shows a hang is what its ranks did before.
--           Misses before the first call, and after the last one where nobody waits, are no
--           suspicion: recordings begin and end at different times. send, recv and calls of unknown
--           kind may differ by rank and are left out.
-- @caveat   Without sequence numbers a left-out call shows only by the kinds that follow it, not
--           where a group makes one kind; and kinds of a rank that calls on several streams are
--           compared only after its last call whose launch is unknown or shared (CUDA graph), of
--           one that calls on several devices never.
-- @source   users_ask 5 and B (ranks with unequal counts, missing first steps), product 6.1
--           (matching); missing-enter diagnosis as of PyTorch's flight recorder
WITH
    -- Calls in which a rank sat and waited.
    waits AS (
        SELECT trace, pg_key, series, rank, spot, collective, dur_ns
        FROM _hang_waits
        WHERE dur_ns >= $long_factor * usual_ns
    ),

    -- The longest wait of each rank, in whatever group.
    waiting AS (
        SELECT trace, rank, pg_key, collective, dur_ns
        FROM waits
        QUALIFY row_number() OVER (
            PARTITION BY trace, rank ORDER BY dur_ns DESC, pg_key, collective
        ) = 1
    ),

    -- Of the waits that come after all calls of a rank, the longest.
    stops AS (
        SELECT
            r.trace, r.pg_key, r.rank, w.rank AS waiting_rank, w.collective, w.dur_ns
        FROM _hang_misses AS r
        INNER JOIN waits AS w
            ON w.trace = r.trace AND w.pg_key = r.pg_key AND w.series = r.series
            AND w.spot > r.last_spot
        QUALIFY row_number() OVER (
            PARTITION BY r.trace, r.pg_key, r.rank
            ORDER BY w.dur_ns DESC, w.rank, w.collective, w.spot
        ) = 1
    ),

    misses AS (
        SELECT
            trace, pg_key, rank,
            TRY_CAST(sum(missing_begin) AS BIGINT) AS missing_begin,
            TRY_CAST(sum(missing_inside) AS BIGINT) AS missing_inside,
            TRY_CAST(sum(missing_end) AS BIGINT) AS missing_end,
            min(first_missing_seq) AS first_missing_seq
        FROM _hang_misses
        GROUP BY trace, pg_key, rank
    ),

    found AS (
        SELECT
            m.trace, m.pg_key, m.rank, m.ranks_compared, m.calls, m.matched_calls, m.calls_by_kind,
            i.missing_begin, i.missing_inside, i.missing_end, i.first_missing_seq,
            w.wrong_place, w.wrong_seq, w.wrong_kind, w.right_kind,
            nullif(concat_ws(
                '; ',
                w.reason,
                CASE WHEN i.missing_inside > 0
                    THEN 'lacks ' || i.missing_inside
                        || ' of the sequence numbers between its own, the first is '
                        || i.first_missing_seq
                END
            ), '') AS misfit,
            CASE
                WHEN m.calls IS NULL THEN 'makes no call of the group'
                WHEN s.rank IS NOT NULL
                    THEN 'does not make the ' || s.collective || ' in which rank '
                        || s.waiting_rank || ' sits for ' || s.dur_ns // 1000 || ' us'
            END AS stop,
            'sits itself in ' || x.collective
                || CASE WHEN x.pg_key = 0 THEN '' ELSE ' of group ' || x.pg_key END
                || ' for ' || x.dur_ns // 1000 || ' us' AS own_wait
        FROM _hang_members AS m
        LEFT JOIN misses AS i ON i.trace = m.trace AND i.pg_key = m.pg_key AND i.rank = m.rank
        LEFT JOIN _hang_kinds AS w ON w.trace = m.trace AND w.pg_key = m.pg_key AND w.rank = m.rank
        LEFT JOIN stops AS s ON s.trace = m.trace AND s.pg_key = m.pg_key AND s.rank = m.rank
        LEFT JOIN waiting AS x ON x.trace = m.trace AND x.rank = m.rank
    ),

    -- Traces of which all ranks that stop wait themselves, and for nobody who is not ingested.
    circles AS (
        SELECT f.trace
        FROM found AS f
        GROUP BY f.trace
        HAVING NOT bool_or(f.misfit IS NOT NULL OR (f.stop IS NOT NULL AND f.own_wait IS NULL))
            AND f.trace NOT IN (
                SELECT w.trace
                FROM waits AS w
                LEFT JOIN (SELECT DISTINCT trace, pg_key, ranks_compared FROM _hang_members) AS g
                    ON g.trace = w.trace AND g.pg_key = w.pg_key
                LEFT JOIN process_groups AS p ON p.trace = w.trace AND p.pg_id = w.pg_key
                WHERE g.ranks_compared IS DISTINCT FROM p.group_size
            )
    ),

    judged AS (
        SELECT
            f.trace, f.pg_key, f.rank, f.ranks_compared, f.calls_by_kind,
            coalesce(f.calls, 0) AS calls, coalesce(f.matched_calls, 0) AS matched_calls,
            f.missing_begin, f.missing_inside, f.missing_end, f.first_missing_seq,
            f.wrong_place, f.wrong_seq, f.wrong_kind, f.right_kind,
            l.collective AS last_kind, l.dur_ns / 1e3 AS last_us,
            f.misfit IS NOT NULL
                OR (f.stop IS NOT NULL AND (f.own_wait IS NULL OR c.trace IS NOT NULL)) AS suspect,
            nullif(concat_ws(
                '; ',
                f.misfit,
                CASE
                    WHEN f.stop IS NULL OR f.own_wait IS NULL THEN f.stop
                    WHEN c.trace IS NOT NULL
                        THEN f.stop || ', and ' || f.own_wait || ': the ranks wait in a circle'
                    ELSE f.stop || ', but ' || f.own_wait || ': a victim'
                END
            ), '') AS reason
        FROM found AS f
        LEFT JOIN circles AS c ON c.trace = f.trace
        LEFT JOIN _hang_calls AS l
            ON l.trace = f.trace AND l.pg_key = f.pg_key AND l.rank = f.rank AND l.is_last
    ),

    rank_lists AS (
        SELECT
            trace,
            array_agg({
                rank: rank, pg_id: nullif(pg_key, 0), calls: calls,
                calls_by_kind: calls_by_kind, matched_calls: matched_calls,
                missing_begin: missing_begin, missing_inside: missing_inside,
                first_missing_seq: first_missing_seq, missing_end: missing_end,
                first_wrong_place: wrong_place, first_wrong_seq: wrong_seq,
                first_wrong_kind: wrong_kind, right_kind: right_kind,
                last_kind: last_kind, last_us: last_us,
                suspect: suspect, reason: reason
            } ORDER BY NOT suspect, rank, pg_key) AS by_rank,
            coalesce(list_sort(array_agg(DISTINCT rank) FILTER (WHERE suspect)), [])
                AS suspect_ranks
        FROM judged
        GROUP BY trace
    ),

    group_rows AS (
        SELECT
            trace, pg_key,
            max(ranks_compared) AS ranks_compared,
            max(matched_calls) AS matched_calls,
            max(calls) AS calls,
            bool_or(suspect) AS suspect,
            coalesce(array_agg(rank ORDER BY rank) FILTER (WHERE suspect), []) AS suspect_ranks,
            string_agg('rank ' || rank || ' ' || reason, '; ' ORDER BY NOT suspect, rank) AS reason
        FROM judged
        GROUP BY trace, pg_key
    ),

    group_lists AS (
        SELECT
            r.trace,
            count(*) AS groups_count,
            array_agg({
                pg_id: g.pg_id, pg_name: g.pg_name, pg_desc: g.pg_desc, group_size: g.group_size,
                ranks_compared: r.ranks_compared, matched_calls: r.matched_calls,
                most_calls: r.calls, suspect_ranks: r.suspect_ranks, reason: r.reason
            } ORDER BY NOT r.suspect, r.pg_key) AS by_group
        FROM group_rows AS r
        LEFT JOIN process_groups AS g ON g.trace = r.trace AND g.pg_id = r.pg_key
        GROUP BY r.trace
    ),

    known AS (
        SELECT
            trace,
            CAST(count(pg_id) AS DOUBLE) / nullif(count(*), 0) AS grouped_ratio
        FROM collectives
        WHERE collective NOT IN ('send', 'recv', 'send_recv', 'unknown')
        GROUP BY trace
    )

SELECT
    g.trace, len(r.suspect_ranks) AS suspect_ranks_count, r.suspect_ranks, g.groups_count,
    k.grouped_ratio, g.by_group, r.by_rank
FROM group_lists AS g
INNER JOIN rank_lists AS r ON r.trace = g.trace
INNER JOIN known AS k ON k.trace = g.trace
ORDER BY g.trace
