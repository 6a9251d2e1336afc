-- @metric   traffic_matrix
-- @version  1
-- @area     traffic
-- @summary  Bytes that each rank sends to each other rank, and how unevenly the pairs are loaded.
-- @grain    trace
-- @requires collectives
-- @reads    process_groups ranks
-- @value    pair_imbalance_ratio
-- @answer   'rank ' || heaviest_src || ' to rank ' || heaviest_dst || ' carries most'
-- @coverage pair_coverage_ratio | size and partners of the calls are
-- @check    (SELECT count(message_bytes) FROM collectives) > 0
--           | the trace states no message size of any call
-- @check    (SELECT max(message_bytes) FROM collectives) > 0
--           | every call of known size carries 0 bytes
-- @null     of no call that sends bytes to another rank are group and partners known
-- @param    pairs BIGINT 256 | Pairs that are listed, the heaviest first.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   pair_imbalance_ratio DOUBLE value ratio | Bytes of the heaviest pair (sender, receiver)
--           / mean over the pairs that carry bytes: 1 where all carry the same.
-- @column   heaviest_share_ratio DOUBLE value ratio | Bytes of the heaviest pair / all bytes
--           between known pairs.
-- @column   heaviest_src BIGINT value - | Its sender, global rank.
-- @column   heaviest_dst BIGINT value - | Its receiver.
-- @column   pairs_count BIGINT value count | Pairs that carry bytes.
-- @column   total_gb DOUBLE value gb | Bytes between known pairs.
-- @column   unplaced_gb DOUBLE value gb | Wire bytes of calls whose partners are unknown: rooted
--           collectives, groups whose ranks nobody lists, send and receive without a peer, an
--           uneven all-to-all without splits.
-- @column   pair_coverage_ratio DOUBLE value ratio | Share of the events whose bytes are placed (0
--           bytes are); barriers, and receives whose sender was ingested too, do not count.
-- @column   pairs LIST value - | The heaviest pairs by kind: src, dst, kind, bytes, calls.
-- @column   other_pairs_count BIGINT value count | Pairs and kinds that are not listed.
-- @column   other_gb DOUBLE value gb | Their bytes.
-- @column   by_rank LIST value - | Of each rank: sent_bytes, received_bytes, peers (to which it
--           sends).
-- @caveat   What a profiler records is calls, no packets: all-reduce, all-gather and reduce-scatter
--           are taken for rings in the order of the group's ranks (NCCL may choose another ring, or
--           a tree), an all-to-all sends to each rank by its splits, evenly without.
-- @caveat   Only what ingested ranks send is known, and what they receive from ranks that were not
--           ingested.
-- @source   metrics 7.2 nccl_all2allv_heatmap (there the place in the group for the receiver), 1.4
--           (wire bytes)
WITH
    worlds AS (
        SELECT trace, max(world_size) AS world_size
        FROM ranks
        GROUP BY trace
    ),

    -- Calls of a rank that go the same way.
    flows AS (
        SELECT
            trace, rank, collective, pg_id, group_size, in_split, peer_rank,
            -- An even all-to-all gives each rank as much as it takes.
            collective = 'all_to_all' AND coalesce(in_bytes <> out_bytes, false) AS uneven,
            count(*) AS calls, count(wire_bytes) AS sized_calls,
            sum(message_bytes) AS message_bytes, sum(wire_bytes) AS wire_bytes
        FROM collectives
        WHERE collective NOT IN ('barrier', 'unknown') AND group_size IS DISTINCT FROM 1
        GROUP BY trace, rank, collective, pg_id, group_size, in_split, peer_rank,
            collective = 'all_to_all' AND coalesce(in_bytes <> out_bytes, false)
    ),

    -- Ranks of each group; a group of all ranks that nobody lists is in their order.
    placed AS (
        SELECT
            f.trace, f.rank, f.collective, f.group_size, f.in_split, f.peer_rank, f.uneven, f.calls, f.sized_calls,
            CAST(f.message_bytes AS DOUBLE) AS message_bytes, CAST(f.wire_bytes AS DOUBLE) AS wire_bytes,
            CASE
                WHEN g.ranks IS NOT NULL THEN g.ranks
                WHEN f.group_size = w.world_size AND w.world_size <= 65536 THEN range(0, w.world_size)
            END AS members
        FROM flows AS f
        LEFT JOIN process_groups AS g ON g.trace = f.trace AND g.pg_id = f.pg_id
        LEFT JOIN worlds AS w ON w.trace = f.trace
    ),

    located AS (
        SELECT
            trace, rank, collective, in_split, uneven, calls, sized_calls, message_bytes, wire_bytes, members,
            len(members) AS n,
            list_position(members, rank) AS place,
            -- A peer is a place in the group; where that cannot be, a rank.
            CASE
                WHEN peer_rank BETWEEN 0 AND len(members) - 1 AND members[peer_rank + 1] <> rank
                    THEN members[peer_rank + 1]
                WHEN list_contains(members, peer_rank) AND peer_rank <> rank THEN peer_rank
            END AS peer
        FROM placed
    ),

    senders AS (
        SELECT
            l.trace, l.rank, l.collective, l.in_split, l.calls, l.sized_calls, l.message_bytes, l.wire_bytes,
            l.members, l.n, l.place, l.peer,
            r.rank IS NOT NULL AS peer_ingested,
            CASE
                WHEN l.sized_calls = 0 THEN 'none'
                -- What sends nothing needs no partner.
                WHEN l.wire_bytes = 0 THEN 'empty'
                WHEN l.collective IN ('send', 'recv') AND l.peer IS NOT NULL THEN l.collective
                -- Who sends to one rank may receive from others: they say it themselves.
                WHEN l.collective = 'send_recv' AND l.peer IS NOT NULL THEN 'send'
                WHEN l.place IS NULL OR l.n < 2 THEN 'none'
                WHEN l.collective IN ('all_reduce', 'all_gather', 'reduce_scatter') THEN 'ring'
                WHEN l.collective IN ('all_to_all', 'send', 'send_recv') AND len(l.in_split) = l.n
                    AND list_min(l.in_split) >= 0 AND list_sum(l.in_split) > 0 THEN 'splits'
                WHEN l.collective <> 'all_to_all' OR l.uneven THEN 'none'
                ELSE 'even'
            END AS way
        FROM located AS l
        LEFT JOIN (SELECT DISTINCT trace, rank FROM ranks) AS r ON r.trace = l.trace AND r.rank = l.peer
    ),

    -- Of a receive whose sender was ingested, the send says it.
    spread AS (
        SELECT trace, rank, collective, calls, message_bytes, in_split, members, n, way, unnest(range(1, n + 1)) AS dst_place
        FROM senders
        WHERE way IN ('splits', 'even')
    ),

    edges AS (
        SELECT trace, rank AS src, members[place % n + 1] AS dst, collective AS kind, calls, wire_bytes AS bytes
        FROM senders
        WHERE way = 'ring'
        UNION ALL
        SELECT trace, rank, peer, collective, calls, wire_bytes
        FROM senders
        WHERE way = 'send'
        UNION ALL
        SELECT trace, peer, rank, 'send', calls, message_bytes
        FROM senders
        WHERE way = 'recv' AND NOT peer_ingested
        UNION ALL
        SELECT
            trace, rank, members[dst_place], collective, calls,
            CASE WHEN way = 'even' THEN message_bytes / n
                ELSE message_bytes * in_split[dst_place] / list_sum(in_split) END
        FROM spread
        WHERE members[dst_place] <> rank
    ),

    kind_pairs AS (
        SELECT
            trace, src, dst, kind, TRY_CAST(sum(calls) AS BIGINT) AS calls,
            TRY_CAST(sum(bytes ORDER BY bytes) AS BIGINT) AS bytes
        FROM edges
        WHERE bytes > 0
        GROUP BY trace, src, dst, kind
    ),

    numbered AS (
        SELECT
            trace, src, dst, kind, calls, bytes,
            row_number() OVER (PARTITION BY trace ORDER BY bytes DESC, src, dst, kind) AS place
        FROM kind_pairs
    ),

    pair_lists AS (
        SELECT
            trace,
            array_agg({src: src, dst: dst, kind: kind, bytes: bytes, calls: calls} ORDER BY place)
                FILTER (WHERE place <= $pairs) AS pairs,
            count(*) FILTER (WHERE place > $pairs) AS other_pairs_count,
            CAST(coalesce(sum(bytes) FILTER (WHERE place > $pairs), 0) AS DOUBLE) / 1e9 AS other_gb
        FROM numbered
        GROUP BY trace
    ),

    pair_sums AS (
        SELECT trace, src, dst, CAST(sum(bytes) AS DOUBLE) AS bytes
        FROM kind_pairs
        GROUP BY trace, src, dst
    ),

    heaviest AS (
        SELECT trace, src, dst
        FROM pair_sums
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY bytes DESC, src, dst) = 1
    ),

    totals AS (
        SELECT
            trace, max(bytes) AS max_bytes, sum(bytes ORDER BY bytes) AS bytes, count(*) AS pairs_count
        FROM pair_sums
        GROUP BY trace
    ),

    ends AS (
        SELECT trace, src AS rank, bytes AS sent_bytes, CAST(0 AS DOUBLE) AS received_bytes, 1 AS peers
        FROM pair_sums
        UNION ALL
        SELECT trace, dst, 0, bytes, 0
        FROM pair_sums
    ),

    rank_sums AS (
        SELECT
            trace, rank, TRY_CAST(sum(sent_bytes ORDER BY sent_bytes) AS BIGINT) AS sent_bytes,
            TRY_CAST(sum(received_bytes ORDER BY received_bytes) AS BIGINT) AS received_bytes,
            TRY_CAST(sum(peers) AS BIGINT) AS peers
        FROM ends
        GROUP BY trace, rank
    ),

    rank_lists AS (
        SELECT
            trace,
            array_agg({rank: rank, sent_bytes: sent_bytes, received_bytes: received_bytes, peers: peers}
                ORDER BY rank) AS by_rank
        FROM rank_sums
        GROUP BY trace
    ),

    coverage AS (
        SELECT
            trace,
            CAST(sum(CASE WHEN way <> 'none' THEN sized_calls ELSE 0 END) AS DOUBLE) / sum(calls)
                AS pair_coverage_ratio,
            coalesce(sum(wire_bytes ORDER BY wire_bytes) FILTER (WHERE way = 'none'), 0) / 1e9 AS unplaced_gb
        FROM senders
        WHERE NOT (way = 'recv' AND peer_ingested)
        GROUP BY trace
    )

SELECT
    c.trace,
    t.max_bytes / (t.bytes / t.pairs_count) AS pair_imbalance_ratio,
    t.max_bytes / t.bytes AS heaviest_share_ratio,
    h.src AS heaviest_src, h.dst AS heaviest_dst, coalesce(t.pairs_count, 0) AS pairs_count,
    t.bytes / 1e9 AS total_gb, c.unplaced_gb, c.pair_coverage_ratio, p.pairs, p.other_pairs_count,
    p.other_gb, r.by_rank
FROM coverage AS c
LEFT JOIN totals AS t ON t.trace = c.trace
LEFT JOIN heaviest AS h ON h.trace = c.trace
LEFT JOIN pair_lists AS p ON p.trace = c.trace
LEFT JOIN rank_lists AS r ON r.trace = c.trace
ORDER BY c.trace
