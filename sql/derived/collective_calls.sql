-- @derived  collective_calls
-- @summary  One row per operation that every ingested rank of its group took part in, or both ranks
--           that one sends to the other.
-- @requires collectives
-- @reads    _calls ranks cards bus_factors
-- @caveat   Skew and wait compare clocks of ranks: without a common clock they hold the clocks'
--           offset too. transfer_ns does not.
-- @source   nccl-tests doc/PERFORMANCE.md (bus factors); product 6.1
WITH
    -- Node of a rank: its host, else its number over the card's devices per node.
    nodes AS (
        SELECT
            r.rank,
            coalesce(r.host, CAST(r.rank // nullif(c.count_per_node, 0) AS VARCHAR)) AS node
        FROM ranks AS r
        LEFT JOIN cards AS c ON true
        QUALIFY row_number() OVER (PARTITION BY r.rank ORDER BY r.host) = 1
    ),

    shares AS (
        SELECT
            c.source, c.collective_id, c.pg_id, c.collective, c.group_size, c.rank, c.message_bytes,
            c.dtype, c.ts_ns, c.ts_ns + c.dur_ns AS end_ns, c.dur_ns, c.step, n.node,
            -- An even all-to-all gives each rank as much as it takes; who sends to some ranks only
            -- is not uneven.
            (c.collective NOT IN ('send', 'recv', 'send_recv')
                AND c.in_split IS NOT NULL AND list_min(c.in_split) IS DISTINCT FROM list_max(c.in_split))
                OR (c.collective = 'all_to_all' AND coalesce(c.in_bytes <> c.out_bytes, false)) AS uneven
        FROM collectives AS c
        LEFT JOIN nodes AS n ON n.rank = c.rank
        WHERE c.collective_id IS NOT NULL
    ),

    calls AS (
        SELECT
            source,
            collective_id,
            -- Of a pair, one sends and the other receives.
            CASE WHEN min(collective) = max(collective) THEN min(collective) ELSE 'send_recv' END
                AS collective,
            max(pg_id) AS pg_id,
            max(group_size) AS group_size,
            -- A rank takes part in a call once.
            count(*) AS ranks_seen,
            max(message_bytes) AS message_bytes,
            max(dtype) AS dtype,
            min(ts_ns) AS first_start_ns,
            max(ts_ns) AS last_start_ns,
            min(end_ns) AS first_end_ns,
            max(end_ns) AS last_end_ns,
            min(dur_ns) AS transfer_ns,
            sum(ts_ns - CAST(0 AS HUGEINT)) AS start_sum_ns,
            bool_or(uneven) AS uneven,
            min(node) <> max(node) AS several_nodes,
            count(node) AS node_known,
            -- Of the ranks that start last, the first one.
            max_by(rank, CAST(ts_ns AS HUGEINT) * 16777216 - rank) AS last_rank,
            -- The step of the first rank, -1 where that call is in none.
            min_by(coalesce(step, -1), rank) AS first_step
        FROM shares
        GROUP BY source, collective_id
    ),

    rated AS (
        SELECT
            c.source, c.collective_id, c.pg_id, c.collective, c.group_size, c.ranks_seen,
            c.message_bytes, c.dtype, c.first_start_ns, c.last_start_ns, c.first_end_ns, c.last_end_ns, c.transfer_ns,
            c.last_start_ns - c.first_start_ns AS start_skew_ns,
            c.last_end_ns - c.first_end_ns AS end_skew_ns,
            CAST(CAST(c.last_start_ns AS HUGEINT) * c.ranks_seen - c.start_sum_ns AS DOUBLE)
                / c.ranks_seen AS mean_wait_ns,
            c.last_rank,
            CAST(c.message_bytes AS DOUBLE) / nullif(c.transfer_ns, 0) AS algo_bw_gb_per_s,
            CASE
                WHEN c.uneven THEN NULL
                WHEN f.in_group THEN f.factor * (c.group_size - 1) / c.group_size
                ELSE f.factor
            END AS bus_factor,
            CASE
                WHEN c.node_known < c.ranks_seen THEN NULL
                WHEN c.several_nodes THEN 'inter'
                WHEN m.is_pair OR c.ranks_seen = c.group_size THEN 'intra'
            END AS link,
            nullif(c.first_step, -1) AS step,
            m.matched_by
        FROM calls AS c
        INNER JOIN _calls AS m ON m.collective_id = c.collective_id
        LEFT JOIN bus_factors AS f ON f.collective = c.collective
    )

SELECT
    source, collective_id, pg_id, collective, group_size, ranks_seen, message_bytes, dtype,
    first_start_ns, last_start_ns, first_end_ns, last_end_ns, transfer_ns,
    start_skew_ns, end_skew_ns, mean_wait_ns, last_rank, algo_bw_gb_per_s,
    algo_bw_gb_per_s * bus_factor AS bus_bw_gb_per_s,
    link, step, matched_by
FROM rated
ORDER BY collective_id
