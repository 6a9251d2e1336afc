-- @metric   comm_volume_bytes
-- @version  1
-- @area     traffic
-- @summary  Bytes that a rank communicates in a step, by kind: message sizes and what must go over
--           the wire.
-- @grain    trace
-- @requires collectives
-- @reads    _comm_volumes _comm_launches _comm_ranks steps _kernel_coverage _comm_coverage
-- @value    comm_volume_bytes
-- @coverage size_coverage_ratio | message sizes are
-- @coverage launch_coverage_ratio | launches of communication, by the time that it takes, are
-- @check    (SELECT count(*) FROM steps) = 0 OR (SELECT count(*) FROM collectives) = 0 OR (SELECT
--           sum(launched_calls) FROM _comm_launches) > 0
--           | of no communication event is the launch known, and with it the step
-- @check    (SELECT count(*) FROM steps) = 0 OR (SELECT count(step) FROM collectives) > 0
--           | no step launched communication
-- @null     no collective that a step launched (that the trace has, where it has no steps) has a
--           known size
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   comm_volume_bytes DOUBLE value bytes | Message sizes S of the collectives that a step
--           launched (without send and receive), mean over the steps of a rank, then over the ranks
--           with steps; of the whole trace, mean over the ranks that have a window, where it has no
--           steps. A rank without calls counts as 0.
-- @column   wire_volume_bytes DOUBLE value bytes | What a rank must send for them at least, by
--           kind, S and group size.
-- @column   p2p_volume_bytes DOUBLE value bytes | Message sizes of send, recv and send_recv,
--           likewise.
-- @column   total_volume_bytes BIGINT value bytes | Message sizes of all ranks and the whole trace,
--           send and receive included.
-- @column   total_wire_bytes BIGINT value bytes | Wire bytes of all ranks and the whole trace.
-- @column   size_coverage_ratio DOUBLE value ratio | Share of the calls whose size is known;
--           barriers have none and do not count.
-- @column   by_type LIST value - | Each kind: calls, message and wire bytes in a step of a rank,
--           and of all ranks in the whole trace.
-- @column   per_rank MAP value bytes | Message sizes of each rank in a step, without send and
--           receive; 0 where a rank has no such calls, NULL where none of them has a known size, a
--           rank has no steps in a trace with steps, or no launch of its calls is known.
-- @column   method VARCHAR value - | steps, or whole_trace.
-- @column   launch_coverage_ratio DOUBLE value ratio | Share of the communication time (sum of
--           durations) whose launch, and so whose step, is known; NULL without steps.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @source   metrics 2.C comm_volume_bytes (defects D28, D29: every rank, S by kind, unknown sizes
--           are no zeros)
WITH
    totals AS (
        SELECT
            trace,
            sum(step_message_bytes ORDER BY rank, collective) FILTER (WHERE NOT p2p) / max(step_ranks)
                AS comm_volume_bytes,
            sum(step_wire_bytes ORDER BY rank, collective) FILTER (WHERE NOT p2p) / max(step_ranks)
                AS wire_volume_bytes,
            sum(step_message_bytes ORDER BY rank, collective) FILTER (WHERE p2p) / max(step_ranks)
                AS p2p_volume_bytes,
            TRY_CAST(sum(message_bytes) AS BIGINT) AS total_volume_bytes,
            TRY_CAST(sum(wire_bytes) AS BIGINT) AS total_wire_bytes,
            CAST(sum(sized) AS DOUBLE) / nullif(sum(sizable), 0) AS size_coverage_ratio,
            bool_or(has_steps) AS has_steps
        FROM _comm_volumes
        GROUP BY trace
    ),

    kinds AS (
        SELECT
            trace, collective,
            sum(step_calls ORDER BY rank) / max(step_ranks) AS calls,
            sum(step_message_bytes ORDER BY rank) / max(step_ranks) AS message_bytes,
            sum(step_wire_bytes ORDER BY rank) / max(step_ranks) AS wire_bytes,
            TRY_CAST(sum(message_bytes) AS BIGINT) AS total_message_bytes,
            TRY_CAST(sum(wire_bytes) AS BIGINT) AS total_wire_bytes
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
        SELECT
            trace, rank, sum(step_message_bytes ORDER BY collective) AS message_bytes
        FROM _comm_volumes
        WHERE sizable > 0 AND step_calls > 0 AND NOT p2p
        GROUP BY trace, rank
    ),

    rank_maps AS (
        SELECT
            r.trace,
            map(
                array_agg(CAST(r.rank AS VARCHAR) ORDER BY r.rank),
                array_agg(CASE WHEN s.rank IS NULL AND r.step_count > 0 THEN 0 ELSE s.message_bytes END ORDER BY r.rank)
            ) AS per_rank
        FROM _comm_ranks AS r
        LEFT JOIN rank_sums AS s ON s.trace = r.trace AND s.rank = r.rank
        GROUP BY r.trace
    )

SELECT
    t.trace, t.comm_volume_bytes, t.wire_volume_bytes, t.p2p_volume_bytes, t.total_volume_bytes,
    t.total_wire_bytes, t.size_coverage_ratio, k.by_type, m.per_rank,
    CASE WHEN t.has_steps THEN 'steps' ELSE 'whole_trace' END AS method,
    CASE WHEN t.has_steps THEN c.launch_coverage_ratio END AS launch_coverage_ratio
FROM totals AS t
INNER JOIN kind_lists AS k ON k.trace = t.trace
LEFT JOIN rank_maps AS m ON m.trace = t.trace
LEFT JOIN _comm_coverage AS c ON c.trace = t.trace
ORDER BY t.trace
