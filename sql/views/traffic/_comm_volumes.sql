-- @view     _comm_volumes
-- @summary  Bytes that each rank communicates by each kind of call: in a step, and in the whole
--           trace.
-- @requires collectives _comm_ranks
-- @caveat   Calls that no step launched are in the totals only; a trace without steps counts as one
--           step. Means over num_ranks and step_ranks take a rank without calls as 0.
WITH
    events AS (
        SELECT
            c.trace, c.rank, c.collective, c.message_bytes, c.wire_bytes,
            c.collective IN ('send', 'recv', 'send_recv') AS p2p,
            c.step IS NOT NULL OR NOT r.has_steps AS counts,
            r.step_count, r.num_ranks, r.step_ranks, r.has_steps
        FROM collectives AS c
        INNER JOIN _comm_ranks AS r ON r.trace = c.trace AND r.rank = c.rank
    )

SELECT
    trace, rank, collective, p2p, num_ranks, step_ranks, has_steps,
    CAST(count(*) FILTER (WHERE counts) AS DOUBLE) / max(step_count) AS step_calls,
    CAST(sum(message_bytes) FILTER (WHERE counts) AS DOUBLE) / max(step_count) AS step_message_bytes,
    CAST(sum(wire_bytes) FILTER (WHERE counts) AS DOUBLE) / max(step_count) AS step_wire_bytes,
    count(*) AS calls,
    sum(message_bytes) AS message_bytes,
    sum(wire_bytes) AS wire_bytes,
    count(*) FILTER (WHERE collective <> 'barrier') AS sizable,
    count(message_bytes) AS sized
FROM events
GROUP BY trace, rank, collective, p2p, num_ranks, step_ranks, has_steps
