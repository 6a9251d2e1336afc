-- @metric   collective_vol_total_gb
-- @version  1
-- @area     traffic
-- @summary  Data that the collectives of a rank carry in the whole trace: sum of their message
--           sizes, mean over ranks; send and receive are apart.
-- @grain    trace
-- @requires collectives
-- @reads    _comm_volumes _kind_volumes _windows _kernel_coverage
-- @value    collective_vol_total_gb
-- @coverage size_coverage_ratio | message sizes are
-- @null     no collective has a known size
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   collective_vol_total_gb DOUBLE value gb | Message sizes of the collectives over the
--           whole trace, mean over the ranks that have a window; a rank without calls counts as 0.
-- @column   p2p_gb DOUBLE value gb | Message sizes of send, recv and send_recv, likewise; NULL
--           without any.
-- @column   per_step_gb DOUBLE value gb | What a step launched of the collectives, mean over the
--           steps of a rank, then over the ranks with steps; NULL without steps.
-- @column   wire_gb DOUBLE value gb | What a rank must send for the collectives at least, by kind
--           and group size; mean over ranks.
-- @column   all_ranks_gb DOUBLE value gb | Message sizes of the collectives summed over the ranks.
-- @column   calls BIGINT value calls | Calls of collectives of all ranks, barriers left out.
-- @column   calls_with_size BIGINT value calls | Those whose size is known.
-- @column   size_coverage_ratio DOUBLE value ratio | calls_with_size / calls.
-- @column   by_type LIST value - | Of each kind, send and receive too: message_gb, per_step_gb,
--           wire_gb, all_ranks_gb, calls, calls_with_size.
-- @column   per_rank MAP value gb | Message sizes of the collectives of each rank; 0 where it has
--           none, NULL where none of them has a known size.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @caveat   The tool that set the name reads rank 0 alone, and takes the input of an all-gather.
-- @source   metrics 1.4 (message size S), 2.C comm_volume_bytes (defect D28)
WITH
    totals AS (
        SELECT
            trace,
            CAST(sum(message_bytes) FILTER (WHERE NOT p2p) AS DOUBLE) / max(num_ranks) / 1e9
                AS collective_vol_total_gb,
            CAST(sum(message_bytes) FILTER (WHERE p2p) AS DOUBLE) / max(num_ranks) / 1e9 AS p2p_gb,
            CASE WHEN bool_or(has_steps)
                THEN sum(step_message_bytes ORDER BY rank, collective) FILTER (WHERE NOT p2p)
                    / max(step_ranks) / 1e9
            END AS per_step_gb,
            CAST(sum(wire_bytes) FILTER (WHERE NOT p2p) AS DOUBLE) / max(num_ranks) / 1e9 AS wire_gb,
            CAST(sum(message_bytes) FILTER (WHERE NOT p2p) AS DOUBLE) / 1e9 AS all_ranks_gb,
            TRY_CAST(coalesce(sum(sizable) FILTER (WHERE NOT p2p), 0) AS BIGINT) AS calls,
            TRY_CAST(coalesce(sum(sized) FILTER (WHERE NOT p2p), 0) AS BIGINT) AS calls_with_size
        FROM _comm_volumes
        GROUP BY trace
    ),

    kind_lists AS (
        SELECT
            trace,
            array_agg({
                collective: collective, message_gb: message_gb, per_step_gb: per_step_gb, wire_gb: wire_gb,
                all_ranks_gb: all_ranks_gb, calls: calls, calls_with_size: calls_with_size
            } ORDER BY collective) AS by_type
        FROM _kind_volumes
        GROUP BY trace
    ),

    rank_sums AS (
        SELECT trace, rank, CAST(sum(message_bytes) AS DOUBLE) / 1e9 AS message_gb
        FROM _comm_volumes
        WHERE sizable > 0 AND NOT p2p
        GROUP BY trace, rank
    ),

    rank_maps AS (
        SELECT
            w.trace,
            map(
                array_agg(CAST(w.rank AS VARCHAR) ORDER BY w.rank),
                array_agg(CASE WHEN s.rank IS NULL THEN 0 ELSE s.message_gb END ORDER BY w.rank)
            ) AS per_rank
        FROM _windows AS w
        LEFT JOIN rank_sums AS s ON s.trace = w.trace AND s.rank = w.rank
        GROUP BY w.trace
    )

SELECT
    t.trace, t.collective_vol_total_gb, t.p2p_gb, t.per_step_gb, t.wire_gb, t.all_ranks_gb, t.calls,
    t.calls_with_size, CAST(t.calls_with_size AS DOUBLE) / nullif(t.calls, 0) AS size_coverage_ratio,
    k.by_type, m.per_rank
FROM totals AS t
INNER JOIN kind_lists AS k ON k.trace = t.trace
LEFT JOIN rank_maps AS m ON m.trace = t.trace
ORDER BY t.trace
