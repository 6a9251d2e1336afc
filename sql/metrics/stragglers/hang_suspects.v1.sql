-- @metric   hang_suspects
-- @version  1
-- @area     stragglers
-- @summary  Ranks whose calls do not fit those of their process group: calls that they miss, make in another order, or stop making while the others wait.
-- @grain    trace
-- @requires collectives
-- @reads    launches process_groups ranks
-- @value    suspect_ranks_count
-- @coverage grouped_ratio | the process group
-- @null     no process group has calls of two ingested ranks
-- @check    (SELECT count(DISTINCT rank) FROM ranks) > 1 | the trace has fewer than two ranks
-- @check    (SELECT count(*) FROM collectives WHERE collective NOT IN ('send', 'recv', 'send_recv', 'unknown')) > 0 | the trace has no calls that all ranks of a group make
-- @param    long_factor DOUBLE 10 | A call beyond the matched ones that lasts so many times the median of the matched calls of its kind is one in which a rank sat and waited.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   suspect_ranks_count BIGINT value count lower | Ranks that are suspect in a process group; 0 where all calls fit.
-- @column   suspect_ranks LIST value - | Those ranks.
-- @column   groups_count BIGINT value count | Process groups with two or more ingested ranks, which were compared.
-- @column   grouped_ratio DOUBLE value ratio | Share of the calls whose process group the trace states; the others count as one group of all ranks that make them.
-- @column   by_group LIST value - | Of each process group, suspect ones first: name, description, size, ranks compared, matched calls, calls at the most of a rank, suspect ranks, and why.
-- @column   by_rank LIST value - | Of each rank and process group, suspect ones first: calls, calls by kind, matched calls; calls that another rank makes and it does not: at the beginning and the end of what is matched (where recordings begin and end at different times), and inside (none of these where the group has no matched call); first_wrong_place (counted from 1 in the matched calls of a stated group, in the order of their launches) with its kind and the one that most ranks call there; sequence numbers that it lacks inside its own range; last call and how long it lasts; suspect and why.
-- @caveat   A call that never ends is in no trace: what shows a hang is what its ranks did before. Misses at the edges are no suspicion by themselves. send, recv and calls of unknown kind may differ by rank and are left out. Where the trace states no groups, ranks of different groups are compared, by the numbers of their calls alone: see grouped_ratio.
-- @source   users_ask 5 and B (ranks with unequal counts, missing first steps), product 6.1 (matching); missing-enter diagnosis as of PyTorch's flight recorder
WITH
    rank_counts AS (
        SELECT trace, source, count(DISTINCT rank) AS rank_count
        FROM ranks
        GROUP BY trace, source
    ),

    shares AS (
        SELECT
            c.trace, c.rank, c.device, c.stream, c.event_id, c.collective, c.ts_ns, c.dur_ns, c.seq,
            c.collective_id, l.launch_ts_ns,
            coalesce(c.pg_id, 0) AS pg_key
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
            trace, rank, pg_key, event_id, collective, ts_ns, dur_ns, seq, collective_id,
            coalesce(
                launch_ts_ns,
                max(launch_ts_ns) OVER (
                    PARTITION BY trace, rank, pg_key, device, stream ORDER BY ts_ns, event_id
                    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                )
            ) AS order_ns
        FROM shares
    ),

    calls AS (
        SELECT
            trace, rank, pg_key, event_id, collective, ts_ns, dur_ns, seq, collective_id,
            row_number() OVER (
                PARTITION BY trace, rank, pg_key ORDER BY order_ns NULLS FIRST, ts_ns, event_id
            ) AS place
        FROM launched
    ),

    ingested AS (
        SELECT DISTINCT r.trace, r.rank
        FROM ranks AS r
        INNER JOIN (SELECT DISTINCT trace, source FROM collectives) AS s
            ON s.trace = r.trace AND s.source = r.source
    ),

    called AS (
        SELECT DISTINCT trace, pg_key, rank
        FROM calls
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
            SELECT 1 FROM called AS c WHERE c.trace = s.trace AND c.pg_key = s.pg_key
        )
        UNION
        SELECT trace, pg_key, rank
        FROM called
    ),

    groups AS (
        SELECT trace, pg_key, count(*) AS ranks_compared
        FROM members
        GROUP BY trace, pg_key
        HAVING count(*) > 1
    ),

    spans AS (
        SELECT
            trace, pg_key, rank,
            min(place) FILTER (WHERE collective_id IS NOT NULL) AS first_place,
            max(place) FILTER (WHERE collective_id IS NOT NULL) AS last_place,
            count(*) AS calls,
            count(collective_id) AS matched_calls
        FROM calls
        GROUP BY trace, pg_key, rank
    ),

    -- Calls of a rank that are not matched, by where they lie.
    sides AS (
        SELECT
            c.trace, c.pg_key, c.rank, c.collective, c.dur_ns, c.place,
            CASE
                WHEN c.collective_id IS NOT NULL THEN 'matched'
                WHEN s.first_place IS NULL THEN 'unplaced'
                WHEN c.place < s.first_place THEN 'begin'
                WHEN c.place > s.last_place THEN 'end'
                ELSE 'inside'
            END AS side
        FROM calls AS c
        INNER JOIN spans AS s ON s.trace = c.trace AND s.pg_key = c.pg_key AND s.rank = c.rank
    ),

    kinds AS (
        SELECT
            trace, pg_key, collective,
            median(dur_ns) FILTER (WHERE side = 'matched') AS matched_ns
        FROM sides
        GROUP BY trace, pg_key, collective
    ),

    rank_kinds AS (
        SELECT
            m.trace, m.pg_key, m.rank, k.collective,
            count(s.side) AS calls,
            count(*) FILTER (WHERE s.side = 'begin') AS begin_calls,
            count(*) FILTER (WHERE s.side = 'inside') AS inside_calls,
            count(*) FILTER (WHERE s.side = 'end') AS end_calls
        FROM members AS m
        INNER JOIN groups AS g ON g.trace = m.trace AND g.pg_key = m.pg_key
        INNER JOIN kinds AS k ON k.trace = m.trace AND k.pg_key = m.pg_key
        LEFT JOIN sides AS s
            ON s.trace = m.trace AND s.pg_key = m.pg_key AND s.rank = m.rank
            AND s.collective = k.collective
        GROUP BY m.trace, m.pg_key, m.rank, k.collective
    ),

    -- What the rank with most calls of a kind has and another lacks.
    lacking AS (
        SELECT
            trace, pg_key, rank, collective, calls,
            greatest(most.begin_calls - begin_calls, 0) AS missing_begin,
            greatest(most.inside_calls - inside_calls, 0) AS missing_inside,
            greatest(most.end_calls - end_calls, 0) AS missing_end
        FROM (
            SELECT
                trace, pg_key, rank, collective, calls, begin_calls, inside_calls, end_calls,
                first_value({
                    begin_calls: begin_calls, inside_calls: inside_calls, end_calls: end_calls
                }) OVER (
                    PARTITION BY trace, pg_key, collective ORDER BY calls DESC, rank
                ) AS most
            FROM rank_kinds
        ) AS compared
    ),

    lacks AS (
        SELECT
            trace, pg_key, rank,
            map(array_agg(collective ORDER BY collective), array_agg(calls ORDER BY collective))
                AS calls_by_kind,
            CAST(sum(missing_begin) AS BIGINT) AS missing_begin,
            CAST(sum(missing_inside) AS BIGINT) AS missing_inside,
            CAST(sum(missing_end) AS BIGINT) AS missing_end,
            string_agg(
                CASE WHEN missing_inside > 0 THEN missing_inside || ' ' || collective END, ', '
                ORDER BY collective
            ) AS inside_text
        FROM lacking
        GROUP BY trace, pg_key, rank
    ),

    -- The matched calls of each rank in order; at each place the kind that most ranks call (of
    -- equals that of the lowest rank) is right. Calls of different groups have no order.
    sequences AS (
        SELECT
            trace, pg_key, rank, collective,
            row_number() OVER (PARTITION BY trace, pg_key, rank ORDER BY place) AS matched_place
        FROM calls
        WHERE collective_id IS NOT NULL AND pg_key <> 0
    ),

    expected AS (
        SELECT trace, pg_key, matched_place, collective
        FROM sequences
        GROUP BY trace, pg_key, matched_place, collective
        QUALIFY row_number() OVER (
            PARTITION BY trace, pg_key, matched_place ORDER BY count(*) DESC, min(rank)
        ) = 1
    ),

    wrong AS (
        SELECT
            s.trace, s.pg_key, s.rank, s.matched_place, s.collective, e.collective AS right_kind
        FROM sequences AS s
        INNER JOIN expected AS e
            ON e.trace = s.trace AND e.pg_key = s.pg_key AND e.matched_place = s.matched_place
        WHERE s.collective <> e.collective
        QUALIFY row_number() OVER (
            PARTITION BY s.trace, s.pg_key, s.rank ORDER BY s.matched_place
        ) = 1
    ),

    -- Sequence numbers of a group, counted, and what a rank leaves out between two of its own.
    numbers AS (
        SELECT
            trace, pg_key, seq,
            row_number() OVER (PARTITION BY trace, pg_key ORDER BY seq) AS seq_place,
            lead(seq) OVER (PARTITION BY trace, pg_key ORDER BY seq) AS next_seq
        FROM calls
        WHERE seq IS NOT NULL
        GROUP BY trace, pg_key, seq
    ),

    rank_numbers AS (
        SELECT
            c.trace, c.pg_key, c.rank, n.seq_place, n.next_seq,
            lead(n.seq_place) OVER (
                PARTITION BY c.trace, c.pg_key, c.rank ORDER BY n.seq_place
            ) - n.seq_place - 1 AS skipped
        FROM (SELECT DISTINCT trace, pg_key, rank, seq FROM calls WHERE seq IS NOT NULL) AS c
        INNER JOIN numbers AS n ON n.trace = c.trace AND n.pg_key = c.pg_key AND n.seq = c.seq
    ),

    skips AS (
        SELECT
            trace, pg_key, rank,
            CAST(sum(skipped) AS BIGINT) AS missing_seqs,
            min(next_seq) FILTER (WHERE skipped > 0) AS first_missing_seq
        FROM rank_numbers
        GROUP BY trace, pg_key, rank
    ),

    last_calls AS (
        SELECT trace, pg_key, rank, collective, dur_ns
        FROM calls
        QUALIFY row_number() OVER (PARTITION BY trace, pg_key, rank ORDER BY place DESC) = 1
    ),

    -- The longest call of a group after the matched ones, where it is long.
    long_calls AS (
        SELECT s.trace, s.pg_key, s.rank, s.collective, s.dur_ns
        FROM sides AS s
        INNER JOIN kinds AS k
            ON k.trace = s.trace AND k.pg_key = s.pg_key AND k.collective = s.collective
        WHERE s.side = 'end' AND s.dur_ns > 0 AND s.dur_ns >= $long_factor * k.matched_ns
        QUALIFY row_number() OVER (
            PARTITION BY s.trace, s.pg_key ORDER BY s.dur_ns DESC, s.rank, s.place
        ) = 1
    ),

    judged AS (
        SELECT
            l.trace, l.pg_key, l.rank,
            coalesce(s.calls, 0) AS calls, coalesce(s.matched_calls, 0) AS matched_calls,
            l.calls_by_kind, l.missing_begin, l.missing_inside, l.missing_end,
            w.matched_place AS first_wrong_place, w.collective AS first_wrong_kind,
            w.right_kind, k.missing_seqs, k.first_missing_seq,
            p.collective AS last_kind, p.dur_ns / 1e3 AS last_us,
            nullif(concat_ws(
                '; ',
                CASE
                    WHEN s.calls IS NULL THEN 'makes no call of the group'
                    WHEN l.missing_inside > 0 THEN 'misses ' || l.inside_text || ' that other ranks make'
                END,
                CASE WHEN w.matched_place IS NOT NULL
                    THEN 'calls ' || w.collective || ' where most ranks call ' || w.right_kind
                        || ' (call ' || w.matched_place || ')'
                END,
                CASE WHEN k.missing_seqs > 0
                    THEN 'lacks ' || k.missing_seqs || ' of the sequence numbers, the first is '
                        || k.first_missing_seq
                END,
                CASE WHEN s.calls IS NOT NULL AND l.missing_end > 0 AND c.rank <> l.rank
                    THEN 'makes ' || l.missing_end || ' fewer at the end than rank ' || c.rank
                        || ', which is in ' || c.collective || ' for ' || c.dur_ns // 1000 || ' us'
                END
            ), '') AS reason
        FROM lacks AS l
        LEFT JOIN spans AS s ON s.trace = l.trace AND s.pg_key = l.pg_key AND s.rank = l.rank
        LEFT JOIN wrong AS w ON w.trace = l.trace AND w.pg_key = l.pg_key AND w.rank = l.rank
        LEFT JOIN skips AS k ON k.trace = l.trace AND k.pg_key = l.pg_key AND k.rank = l.rank
        LEFT JOIN last_calls AS p ON p.trace = l.trace AND p.pg_key = l.pg_key AND p.rank = l.rank
        LEFT JOIN long_calls AS c ON c.trace = l.trace AND c.pg_key = l.pg_key
    ),

    rank_lists AS (
        SELECT
            trace,
            array_agg({
                rank: rank, pg_id: nullif(pg_key, 0), calls: calls, calls_by_kind: calls_by_kind,
                matched_calls: matched_calls, missing_begin: missing_begin,
                missing_inside: missing_inside, missing_end: missing_end,
                first_wrong_place: first_wrong_place, first_wrong_kind: first_wrong_kind,
                right_kind: right_kind, missing_seqs: missing_seqs,
                first_missing_seq: first_missing_seq, last_kind: last_kind, last_us: last_us,
                suspect: reason IS NOT NULL, reason: reason
            } ORDER BY reason IS NULL, rank, pg_key) AS by_rank
        FROM judged
        GROUP BY trace
    ),

    group_rows AS (
        SELECT
            j.trace, j.pg_key,
            max(g.ranks_compared) AS ranks_compared,
            max(j.matched_calls) AS matched_calls,
            max(j.calls) AS calls,
            coalesce(array_agg(j.rank ORDER BY j.rank) FILTER (WHERE j.reason IS NOT NULL), [])
                AS suspect_ranks,
            string_agg('rank ' || j.rank || ' ' || j.reason, '; ' ORDER BY j.rank) AS reason
        FROM judged AS j
        INNER JOIN groups AS g ON g.trace = j.trace AND g.pg_key = j.pg_key
        GROUP BY j.trace, j.pg_key
    ),

    group_lists AS (
        SELECT
            r.trace,
            count(*) AS groups_count,
            array_agg({
                pg_id: g.pg_id, pg_name: g.pg_name, pg_desc: g.pg_desc, group_size: g.group_size,
                ranks_compared: r.ranks_compared, matched_calls: r.matched_calls,
                most_calls: r.calls, suspect_ranks: r.suspect_ranks, reason: r.reason
            } ORDER BY r.reason IS NULL, r.pg_key) AS by_group
        FROM group_rows AS r
        LEFT JOIN process_groups AS g ON g.trace = r.trace AND g.pg_id = r.pg_key
        GROUP BY r.trace
    ),

    suspects AS (
        SELECT trace, rank
        FROM judged
        WHERE reason IS NOT NULL
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
