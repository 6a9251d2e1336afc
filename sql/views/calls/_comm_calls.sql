-- @view     _comm_calls
-- @summary  Communication calls once each: what the ranks of a matched call needed at least, and
--           each event that is in no matched call as a call of one rank.
-- @materialize session
-- @requires _comm_events collective_calls
WITH
    shares AS (
        SELECT trace, collective_id, card_size, bool_or(uneven) AS uneven
        FROM _comm_events
        WHERE collective_id IS NOT NULL
        GROUP BY trace, collective_id, card_size
    )

SELECT
    c.trace, c.collective, c.group_size, s.card_size, c.message_bytes, c.transfer_ns, c.link, s.uneven
FROM collective_calls AS c
INNER JOIN shares AS s ON s.trace = c.trace AND s.collective_id = c.collective_id
UNION ALL
SELECT
    trace, collective, group_size, card_size, message_bytes, dur_ns, CAST(NULL AS VARCHAR), uneven
FROM _comm_events
WHERE collective_id IS NULL
