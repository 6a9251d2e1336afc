-- @view     _comm_volumes
-- @summary  Bytes that each rank communicates by each kind of call: in a step, and in the whole trace.
-- @requires collectives ranks steps
-- @caveat   Calls that no step launched are in the totals only; a trace without steps counts as one step.
WITH
    step_counts AS (
        SELECT trace, rank, count(*) AS step_count
        FROM steps
        GROUP BY trace, rank
    ),

    -- Every rank counts, also one without calls.
    jobs AS (
        SELECT r.trace, count(DISTINCT r.rank) AS num_ranks, bool_or(s.rank IS NOT NULL) AS has_steps
        FROM ranks AS r
        LEFT JOIN step_counts AS s ON s.trace = r.trace AND s.rank = r.rank
        GROUP BY r.trace
    ),

    events AS (
        SELECT
            c.trace, c.rank, c.collective, c.message_bytes, c.wire_bytes,
            c.collective IN ('send', 'recv', 'send_recv') AS p2p,
            c.step IS NOT NULL OR NOT j.has_steps AS counts,
            CASE WHEN j.has_steps THEN s.step_count ELSE 1 END AS step_count,
            j.num_ranks, j.has_steps
        FROM collectives AS c
        INNER JOIN jobs AS j ON j.trace = c.trace
        LEFT JOIN step_counts AS s ON s.trace = c.trace AND s.rank = c.rank
    )

SELECT
    trace, rank, collective, p2p, num_ranks, has_steps,
    CAST(count(*) FILTER (WHERE counts) AS DOUBLE) / max(step_count) AS step_calls,
    CAST(sum(message_bytes) FILTER (WHERE counts) AS DOUBLE) / max(step_count) AS step_message_bytes,
    CAST(sum(wire_bytes) FILTER (WHERE counts) AS DOUBLE) / max(step_count) AS step_wire_bytes,
    count(*) AS calls,
    sum(message_bytes) AS message_bytes,
    sum(wire_bytes) AS wire_bytes,
    count(*) FILTER (WHERE collective <> 'barrier') AS sizable,
    count(message_bytes) FILTER (WHERE collective <> 'barrier') AS sized
FROM events
GROUP BY trace, rank, collective, p2p, num_ranks, has_steps
