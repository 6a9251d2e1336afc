-- @metric   hang_suspects
-- @version  1
-- @area     stragglers
-- @summary  Ranks whose calls do not fit those of their process group: calls that they miss, make
--           in another order, or stop making while the others wait.
-- @grain    trace
-- @requires collectives
-- @reads    launches process_groups ranks
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
    rank_counts AS (
        SELECT trace, source, count(DISTINCT rank) AS rank_count
        FROM ranks
        GROUP BY trace, source
    ),

    shares AS (
        SELECT
            c.trace, c.rank, c.device, c.stream, c.event_id, c.collective, c.ts_ns, c.dur_ns,
            c.collective_id, l.launch_ts_ns,
            coalesce(c.pg_id, 0) AS pg_key,
            -- Numbers and order mean something within a group; else each kind is a series by itself.
            CASE WHEN c.pg_id IS NOT NULL THEN c.seq END AS seq,
            CASE WHEN c.pg_id IS NOT NULL THEN '' ELSE c.collective END AS series
        FROM collectives AS c
        INNER JOIN rank_counts AS n ON n.trace = c.trace AND n.source = c.source
        LEFT JOIN launches AS l ON l.trace = c.trace AND l.event_id = c.event_id
        WHERE c.collective NOT IN ('send', 'recv', 'send_recv', 'unknown')
            AND c.dur_ns IS NOT NULL
            AND c.rank IS NOT NULL
            -- Who is in a group of some of the ranks must be known.
            AND (
                c.pg_id IS NOT NULL OR c.group_size IS NULL OR c.group_size >= n.rank_count
            )
    ),

    -- NCCL must be called in one order on all ranks, and streams may turn it round on the device:
    -- the order of the launches. What has none comes after what its stream ran before it; at the
    -- front that was launched before the recording began.
    launched AS (
        SELECT
            trace, rank, pg_key, series, device, stream, event_id, collective, ts_ns, dur_ns, seq,
            collective_id,
            coalesce(
                launch_ts_ns,
                max(launch_ts_ns) OVER (
                    PARTITION BY trace, rank, pg_key, device, stream ORDER BY ts_ns, event_id
                    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                )
            ) AS order_ns,
            launch_ts_ns IS NULL
                OR count(*) OVER (PARTITION BY trace, rank, pg_key, launch_ts_ns) > 1 AS loose
        FROM shares
    ),

    calls AS (
        SELECT
            trace, rank, pg_key, series, device, stream, event_id, collective, ts_ns, dur_ns, seq,
            collective_id, order_ns, loose,
            row_number() OVER (
                PARTITION BY trace, rank, pg_key, series
                ORDER BY order_ns NULLS FIRST, ts_ns, event_id
            ) AS place
        FROM launched
    ),

    ingested AS (
        SELECT DISTINCT r.trace, r.rank
        FROM ranks AS r
        INNER JOIN (SELECT DISTINCT trace, source FROM collectives) AS s
            ON s.trace = r.trace AND s.source = r.source
    ),

    counts AS (
        SELECT
            trace, pg_key, rank, collective,
            count(*) AS calls,
            count(collective_id) AS matched_calls
        FROM calls
        GROUP BY trace, pg_key, rank, collective
    ),

    stated AS (
        SELECT g.trace, g.pg_id AS pg_key, unnest(g.ranks) AS rank
        FROM process_groups AS g
        WHERE g.ranks IS NOT NULL
    ),

    -- A rank of a group is in it whether it calls or not.
    members AS (
        SELECT s.trace, s.pg_key, s.rank
        FROM stated AS s
        INNER JOIN ingested AS i ON i.trace = s.trace AND i.rank = s.rank
        WHERE EXISTS (
            SELECT 1 FROM counts AS c WHERE c.trace = s.trace AND c.pg_key = s.pg_key
        )
        UNION
        SELECT trace, pg_key, rank
        FROM counts
    ),

    groups AS (
        SELECT trace, pg_key, count(*) AS ranks_compared
        FROM members
        GROUP BY trace, pg_key
        HAVING count(*) > 1
    ),

    totals AS (
        SELECT
            trace, pg_key, rank, calls, matched_calls,
            count(*) OVER (PARTITION BY trace, pg_key) AS callers
        FROM (
            SELECT
                trace, pg_key, rank,
                TRY_CAST(sum(calls) AS BIGINT) AS calls,
                TRY_CAST(sum(matched_calls) AS BIGINT) AS matched_calls
            FROM counts
            GROUP BY trace, pg_key, rank
        ) AS t
    ),

    numbered AS (
        SELECT trace, pg_key, bool_and(seq IS NOT NULL) AS has_seq
        FROM calls
        GROUP BY trace, pg_key
    ),

    -- From where on the order of a rank is known, and where its matched calls end.
    orders AS (
        SELECT
            c.trace, c.pg_key, c.series, c.rank, n.has_seq,
            coalesce(max(c.place) FILTER (WHERE c.collective_id IS NOT NULL), 0) AS last_matched,
            CASE
                WHEN min(c.device) IS DISTINCT FROM max(c.device) AND NOT n.has_seq
                    THEN max(c.place)
                WHEN min(c.device) IS DISTINCT FROM max(c.device)
                    OR min(c.stream) IS DISTINCT FROM max(c.stream)
                    THEN coalesce(max(c.place) FILTER (WHERE c.loose), 0)
                ELSE 0
            END AS known_after
        FROM calls AS c
        INNER JOIN groups AS g ON g.trace = c.trace AND g.pg_key = c.pg_key
        INNER JOIN numbered AS n ON n.trace = c.trace AND n.pg_key = c.pg_key
        GROUP BY c.trace, c.pg_key, c.series, c.rank, n.has_seq
    ),

    -- Without numbers, the place of a matched call on the lowest rank is its place on all.
    anchors AS (
        SELECT
            c.trace, c.pg_key, c.series, c.rank, c.place,
            first_value(c.place) OVER (
                PARTITION BY c.trace, c.collective_id ORDER BY c.rank, c.place
            ) AS right_place
        FROM calls AS c
        INNER JOIN numbered AS n ON n.trace = c.trace AND n.pg_key = c.pg_key
        WHERE c.collective_id IS NOT NULL AND NOT n.has_seq
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
            SELECT trace, pg_key, collective, count(*) AS rank_count
            FROM counts
            WHERE pg_key <> 0
            GROUP BY trace, pg_key, collective
        ) AS k
        INNER JOIN (SELECT DISTINCT trace, pg_key, callers FROM totals) AS t
            ON t.trace = k.trace AND t.pg_key = k.pg_key
        GROUP BY k.trace, k.pg_key, t.callers
        HAVING max(k.rank_count) < t.callers
    ),

    placed AS (
        SELECT
            c.trace, c.pg_key, c.series, c.rank, c.collective, c.dur_ns, c.collective_id, o.has_seq,
            CASE
                WHEN o.has_seq THEN c.seq
                WHEN a.ahead IS NOT NULL THEN c.place + a.ahead
                WHEN u.pg_key IS NOT NULL THEN c.place
            END AS position,
            c.place > o.known_after AS known,
            c.place > o.last_matched AS after_matched
        FROM calls AS c
        INNER JOIN orders AS o
            ON o.trace = c.trace AND o.pg_key = c.pg_key AND o.series = c.series AND o.rank = c.rank
        LEFT JOIN offsets AS a
            ON a.trace = c.trace AND a.pg_key = c.pg_key AND a.series = c.series AND a.rank = c.rank
        LEFT JOIN unlike AS u ON u.trace = c.trace AND u.pg_key = c.pg_key
    ),

    positions AS MATERIALIZED (
        SELECT
            trace, pg_key, series, rank, collective, dur_ns, collective_id, has_seq, position, known,
            after_matched,
            CASE WHEN position IS NOT NULL
                THEN dense_rank() OVER (
                    PARTITION BY trace, pg_key, series ORDER BY position NULLS LAST
                )
            END AS spot
        FROM placed
    ),

    spots AS MATERIALIZED (
        SELECT
            trace, pg_key, series, rank, spot, has_seq,
            min(position) AS position,
            bool_or(known) AS known,
            min(collective) AS collective,
            -- Calls of several kinds may share a number, and one cannot say which is which.
            min(collective) = max(collective) AND bool_and(known OR has_seq) AS comparable
        FROM positions
        WHERE spot IS NOT NULL
        GROUP BY trace, pg_key, series, rank, spot, has_seq
    ),

    spot_counts AS (
        SELECT trace, pg_key, series, max(spot) AS spot_count
        FROM spots
        GROUP BY trace, pg_key, series
    ),

    gaps AS (
        SELECT
            trace, pg_key, series, rank, spot, has_seq, known,
            coalesce(lead(spot) OVER (
                PARTITION BY trace, pg_key, series, rank ORDER BY spot
            ) - spot - 1, 0) AS skipped
        FROM spots
    ),

    rank_spans AS (
        SELECT
            g.trace, g.pg_key, g.series, g.rank,
            max(g.spot) AS last_spot,
            min(g.spot) - 1 + coalesce(sum(g.skipped) FILTER (WHERE NOT g.known), 0)
                AS missing_begin,
            CASE WHEN bool_and(g.has_seq)
                THEN coalesce(sum(g.skipped) FILTER (WHERE g.known), 0)
            END AS missing_inside,
            max(s.spot_count) - max(g.spot) AS missing_end,
            min(g.spot) FILTER (WHERE g.known AND g.skipped > 0) + 1 AS first_missing_spot
        FROM gaps AS g
        INNER JOIN spot_counts AS s
            ON s.trace = g.trace AND s.pg_key = g.pg_key AND s.series = g.series
        GROUP BY g.trace, g.pg_key, g.series, g.rank
    ),

    misses AS (
        SELECT
            trace, pg_key, rank,
            TRY_CAST(sum(missing_begin) AS BIGINT) AS missing_begin,
            TRY_CAST(sum(missing_inside) AS BIGINT) AS missing_inside,
            TRY_CAST(sum(missing_end) AS BIGINT) AS missing_end
        FROM rank_spans
        GROUP BY trace, pg_key, rank
    ),

    first_misses AS (
        SELECT r.trace, r.pg_key, r.rank, min(s.position) AS first_missing_seq
        FROM rank_spans AS r
        INNER JOIN spots AS s
            ON s.trace = r.trace AND s.pg_key = r.pg_key AND s.series = r.series
            AND s.spot = r.first_missing_spot
        WHERE r.missing_inside > 0
        GROUP BY r.trace, r.pg_key, r.rank
    ),

    -- The first place of a group where kinds differ: what follows may differ because of it.
    differing AS (
        SELECT trace, pg_key, min(spot) AS spot
        FROM (
            SELECT trace, pg_key, spot
            FROM spots
            WHERE pg_key <> 0 AND comparable
            GROUP BY trace, pg_key, spot
            HAVING min(collective) <> max(collective)
        ) AS d
        GROUP BY trace, pg_key
    ),

    differing_ranks AS (
        SELECT s.trace, s.pg_key, s.rank, s.spot, s.collective, s.has_seq, s.position
        FROM spots AS s
        INNER JOIN differing AS d
            ON d.trace = s.trace AND d.pg_key = s.pg_key AND d.spot = s.spot
        WHERE s.comparable
    ),

    expected AS (
        SELECT trace, pg_key, collective, first_rank, tied
        FROM (
            SELECT
                trace, pg_key, collective, first_rank,
                row_number() OVER (
                    PARTITION BY trace, pg_key ORDER BY rank_count DESC, first_rank
                ) AS preference,
                lead(rank_count) OVER (
                    PARTITION BY trace, pg_key ORDER BY rank_count DESC, first_rank
                ) = rank_count AS tied
            FROM (
                SELECT
                    trace, pg_key, collective, count(*) AS rank_count, min(rank) AS first_rank
                FROM differing_ranks
                GROUP BY trace, pg_key, collective
            ) AS k
        ) AS preferred
        WHERE preference = 1
    ),

    wrong AS (
        SELECT
            d.trace, d.pg_key, d.rank, d.spot, d.collective, e.collective AS right_kind,
            CASE WHEN d.has_seq THEN d.position END AS seq,
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
    ),

    usual_kinds AS (
        SELECT trace, pg_key, collective, median(dur_ns) AS usual_ns
        FROM calls
        WHERE collective_id IS NOT NULL
        GROUP BY trace, pg_key, collective
    ),

    usual_groups AS (
        SELECT trace, pg_key, median(dur_ns) AS usual_ns
        FROM calls
        WHERE collective_id IS NOT NULL AND pg_key <> 0
        GROUP BY trace, pg_key
    ),

    usual_traces AS (
        SELECT trace, median(dur_ns) AS usual_ns
        FROM calls
        WHERE collective_id IS NOT NULL
        GROUP BY trace
    ),

    last_calls AS (
        SELECT trace, pg_key, rank, collective, dur_ns
        FROM calls
        QUALIFY row_number() OVER (
            PARTITION BY trace, pg_key, rank
            ORDER BY order_ns DESC NULLS LAST, ts_ns DESC, event_id DESC
        ) = 1
    ),

    -- Calls in which a rank sat and waited: in groups that are compared, and the last one in a
    -- group whose other ranks are not ingested.
    waits AS (
        SELECT p.trace, p.pg_key, p.series, p.rank, p.spot, p.collective, p.dur_ns
        FROM positions AS p
        LEFT JOIN usual_kinds AS k
            ON k.trace = p.trace AND k.pg_key = p.pg_key AND k.collective = p.collective
        LEFT JOIN usual_groups AS g ON g.trace = p.trace AND g.pg_key = p.pg_key
        LEFT JOIN usual_traces AS t ON t.trace = p.trace AND p.pg_key <> 0
        WHERE p.after_matched
            AND p.dur_ns > 0
            AND p.dur_ns >= $long_factor * coalesce(k.usual_ns, g.usual_ns, t.usual_ns)
        UNION ALL
        SELECT l.trace, l.pg_key, '', l.rank, NULL, l.collective, l.dur_ns
        FROM last_calls AS l
        INNER JOIN (
            SELECT c.trace, c.pg_key, c.collective, median(c.dur_ns) AS usual_ns
            FROM calls AS c
            WHERE NOT EXISTS (
                SELECT 1 FROM groups AS g WHERE g.trace = c.trace AND g.pg_key = c.pg_key
            )
            GROUP BY c.trace, c.pg_key, c.collective
        ) AS k ON k.trace = l.trace AND k.pg_key = l.pg_key AND k.collective = l.collective
        WHERE l.dur_ns > 0 AND l.dur_ns >= $long_factor * k.usual_ns
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
        FROM rank_spans AS r
        INNER JOIN waits AS w
            ON w.trace = r.trace AND w.pg_key = r.pg_key AND w.series = r.series
            AND w.spot > r.last_spot
        QUALIFY row_number() OVER (
            PARTITION BY r.trace, r.pg_key, r.rank
            ORDER BY w.dur_ns DESC, w.rank, w.collective, w.spot
        ) = 1
    ),

    found AS (
        SELECT
            m.trace, m.pg_key, m.rank, g.ranks_compared, t.calls, t.matched_calls,
            i.missing_begin, i.missing_inside, i.missing_end, f.first_missing_seq,
            w.spot AS wrong_place, w.seq AS wrong_seq, w.collective AS wrong_kind, w.right_kind,
            nullif(concat_ws(
                '; ',
                w.reason,
                CASE WHEN i.missing_inside > 0
                    THEN 'lacks ' || i.missing_inside
                        || ' of the sequence numbers between its own, the first is '
                        || f.first_missing_seq
                END
            ), '') AS misfit,
            CASE
                WHEN t.calls IS NULL THEN 'makes no call of the group'
                WHEN s.rank IS NOT NULL
                    THEN 'does not make the ' || s.collective || ' in which rank '
                        || s.waiting_rank || ' sits for ' || s.dur_ns // 1000 || ' us'
            END AS stop,
            'sits itself in ' || x.collective
                || CASE WHEN x.pg_key = 0 THEN '' ELSE ' of group ' || x.pg_key END
                || ' for ' || x.dur_ns // 1000 || ' us' AS own_wait
        FROM members AS m
        INNER JOIN groups AS g ON g.trace = m.trace AND g.pg_key = m.pg_key
        LEFT JOIN totals AS t ON t.trace = m.trace AND t.pg_key = m.pg_key AND t.rank = m.rank
        LEFT JOIN misses AS i ON i.trace = m.trace AND i.pg_key = m.pg_key AND i.rank = m.rank
        LEFT JOIN first_misses AS f
            ON f.trace = m.trace AND f.pg_key = m.pg_key AND f.rank = m.rank
        LEFT JOIN wrong AS w ON w.trace = m.trace AND w.pg_key = m.pg_key AND w.rank = m.rank
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
                LEFT JOIN groups AS g ON g.trace = w.trace AND g.pg_key = w.pg_key
                LEFT JOIN process_groups AS p ON p.trace = w.trace AND p.pg_id = w.pg_key
                WHERE g.ranks_compared IS DISTINCT FROM p.group_size
            )
    ),

    judged AS (
        SELECT
            f.trace, f.pg_key, f.rank, f.ranks_compared,
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
        LEFT JOIN last_calls AS l ON l.trace = f.trace AND l.pg_key = f.pg_key AND l.rank = f.rank
    ),

    kind_lists AS (
        SELECT
            m.trace, m.pg_key, m.rank,
            map(
                array_agg(k.collective ORDER BY k.collective),
                array_agg(coalesce(c.calls, 0) ORDER BY k.collective)
            ) AS calls_by_kind
        FROM members AS m
        INNER JOIN (SELECT DISTINCT trace, pg_key, collective FROM counts) AS k
            ON k.trace = m.trace AND k.pg_key = m.pg_key
        LEFT JOIN counts AS c
            ON c.trace = m.trace AND c.pg_key = m.pg_key AND c.rank = m.rank
            AND c.collective = k.collective
        GROUP BY m.trace, m.pg_key, m.rank
    ),

    rank_lists AS (
        SELECT
            j.trace,
            array_agg({
                rank: j.rank, pg_id: nullif(j.pg_key, 0), calls: j.calls,
                calls_by_kind: k.calls_by_kind, matched_calls: j.matched_calls,
                missing_begin: j.missing_begin, missing_inside: j.missing_inside,
                first_missing_seq: j.first_missing_seq, missing_end: j.missing_end,
                first_wrong_place: j.wrong_place, first_wrong_seq: j.wrong_seq,
                first_wrong_kind: j.wrong_kind, right_kind: j.right_kind,
                last_kind: j.last_kind, last_us: j.last_us,
                suspect: j.suspect, reason: j.reason
            } ORDER BY NOT j.suspect, j.rank, j.pg_key) AS by_rank
        FROM judged AS j
        INNER JOIN kind_lists AS k
            ON k.trace = j.trace AND k.pg_key = j.pg_key AND k.rank = j.rank
        GROUP BY j.trace
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

    suspects AS (
        SELECT trace, rank
        FROM judged
        WHERE suspect
        GROUP BY trace, rank
    ),

    suspect_lists AS (
        SELECT trace, count(*) AS suspect_ranks_count, array_agg(rank ORDER BY rank) AS suspect_ranks
        FROM suspects
        GROUP BY trace
    ),

    known AS (
        SELECT
            trace,
            CAST(count(pg_id) AS DOUBLE) / nullif(count(*), 0) AS grouped_ratio
        FROM collectives
        WHERE collective NOT IN ('send', 'recv', 'send_recv', 'unknown')
        GROUP BY trace
    ),

    final AS (
        SELECT
            g.trace,
            coalesce(s.suspect_ranks_count, 0) AS suspect_ranks_count,
            coalesce(s.suspect_ranks, []) AS suspect_ranks,
            g.groups_count, k.grouped_ratio, g.by_group, r.by_rank
        FROM group_lists AS g
        INNER JOIN rank_lists AS r ON r.trace = g.trace
        INNER JOIN known AS k ON k.trace = g.trace
        LEFT JOIN suspect_lists AS s ON s.trace = g.trace
    )

SELECT
    trace, suspect_ranks_count, suspect_ranks, groups_count, grouped_ratio, by_group, by_rank
FROM final
ORDER BY trace
