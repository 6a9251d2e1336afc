-- @view     _comm_events
-- @summary  Communication events, with the size of the job by the card and whether an all-to-all is
--           uneven.
-- @materialize session
-- @requires collectives cards
WITH
    jobs AS (
        SELECT trace, max(total_count) AS card_size
        FROM cards
        GROUP BY trace
    )

SELECT
    c.trace, c.collective_id, c.collective, c.group_size, j.card_size, c.message_bytes, c.dur_ns,
    -- An even all-to-all gives each rank as much as it takes; who sends to some ranks only is not
    -- uneven.
    (c.collective NOT IN ('send', 'recv', 'send_recv')
            AND coalesce(list_min(c.in_split) <> list_max(c.in_split), false))
        OR (c.collective = 'all_to_all' AND coalesce(c.in_bytes <> c.out_bytes, false)) AS uneven
FROM collectives AS c
LEFT JOIN jobs AS j ON j.trace = c.trace
