-- @metric   comm_volume_bytes
-- @version  1
-- @area     communication
-- @summary  Bytes that a rank communicates in a step, by kind: message sizes and what must go over the wire.
-- @grain    trace
-- @requires collectives
-- @reads    _comm_volumes
-- @value    comm_volume_bytes
-- @coverage size_coverage_ratio | message sizes are
-- @null     no call has a known size
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   comm_volume_bytes DOUBLE value bytes | Message sizes S of the collectives that a step launched (without send and receive), mean over steps and ranks; of the whole trace where it has no steps.
-- @column   wire_volume_bytes DOUBLE value bytes | What a rank must send for them at least, by kind, S and group size.
-- @column   p2p_volume_bytes DOUBLE value bytes | Message sizes of send, recv and send_recv, likewise.
-- @column   total_volume_bytes BIGINT value bytes | Message sizes of all ranks and the whole trace, send and receive included.
-- @column   total_wire_bytes BIGINT value bytes | Wire bytes of all ranks and the whole trace.
-- @column   size_coverage_ratio DOUBLE value ratio | Share of the calls whose size is known; barriers have none and do not count.
-- @column   by_type LIST value - | Each kind: calls, message and wire bytes in a step of a rank, and of all ranks in the whole trace.
-- @column   per_rank MAP value bytes | Message sizes of each rank in a step, without send and receive.
-- @column   method VARCHAR value - | steps, or whole_trace.
-- @source   metrics 2.C comm_volume_bytes (defects D28, D29: every rank, S by kind, unknown sizes are no zeros)
WITH
    totals AS (
        SELECT
            trace,
            sum(step_message_bytes ORDER BY rank, collective) FILTER (WHERE NOT p2p) / max(num_ranks)
                AS comm_volume_bytes,
            sum(step_wire_bytes ORDER BY rank, collective) FILTER (WHERE NOT p2p) / max(num_ranks)
                AS wire_volume_bytes,
            sum(step_message_bytes ORDER BY rank, collective) FILTER (WHERE p2p) / max(num_ranks)
                AS p2p_volume_bytes,
            CAST(sum(message_bytes) AS BIGINT) AS total_volume_bytes,
            CAST(sum(wire_bytes) AS BIGINT) AS total_wire_bytes,
            CAST(sum(sized) AS DOUBLE) / nullif(sum(sizable), 0) AS size_coverage_ratio,
            bool_or(has_steps) AS has_steps
        FROM _comm_volumes
        GROUP BY trace
    ),

    kinds AS (
        SELECT
            trace, collective,
            sum(step_calls ORDER BY rank) / max(num_ranks) AS calls,
            sum(step_message_bytes ORDER BY rank) / max(num_ranks) AS message_bytes,
            sum(step_wire_bytes ORDER BY rank) / max(num_ranks) AS wire_bytes,
            CAST(sum(message_bytes) AS BIGINT) AS total_message_bytes,
            CAST(sum(wire_bytes) AS BIGINT) AS total_wire_bytes
        FROM _comm_volumes
        GROUP BY trace, collective
    ),

    kind_lists AS (
        SELECT
            trace,
            array_agg({
                collective: collective, calls: calls, message_bytes: message_bytes, wire_bytes: wire_bytes,
                total_message_bytes: total_message_bytes, total_wire_bytes: total_wire_bytes
            } ORDER BY collective) AS by_type
        FROM kinds
        GROUP BY trace
    ),

    rank_sums AS (
        SELECT trace, rank, sum(step_message_bytes ORDER BY collective) FILTER (WHERE NOT p2p) AS message_bytes
        FROM _comm_volumes
        GROUP BY trace, rank
    ),

    rank_maps AS (
        SELECT
            trace,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(message_bytes ORDER BY rank)) AS per_rank
        FROM rank_sums
        WHERE rank IS NOT NULL
        GROUP BY trace
    ),

    final AS (
        SELECT
            t.trace, t.comm_volume_bytes, t.wire_volume_bytes, t.p2p_volume_bytes, t.total_volume_bytes,
            t.total_wire_bytes, t.size_coverage_ratio, k.by_type, m.per_rank,
            CASE WHEN t.has_steps THEN 'steps' ELSE 'whole_trace' END AS method
        FROM totals AS t
        INNER JOIN kind_lists AS k ON k.trace = t.trace
        LEFT JOIN rank_maps AS m ON m.trace = t.trace
    )

SELECT
    trace, comm_volume_bytes, wire_volume_bytes, p2p_volume_bytes, total_volume_bytes, total_wire_bytes,
    size_coverage_ratio, by_type, per_rank, method
FROM final
ORDER BY trace
