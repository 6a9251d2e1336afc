-- @view     _event_links
-- @summary  Communication events of more than one rank with the link that they use, its bandwidth
--           by the card, and the shortest duration of their call over its ranks.
-- @partition rank
-- @requires collectives collective_calls _group_links
WITH
    events AS (
        SELECT
            e.trace, e.rank, e.device, e.event_id, e.collective, e.group_size, e.message_bytes, e.wire_bytes,
            e.step, e.ts_ns, e.dur_ns,
            coalesce(c.transfer_ns, e.dur_ns) AS transfer_ns,
            c.link AS seen_link
        FROM collectives AS e
        LEFT JOIN collective_calls AS c ON c.trace = e.trace AND c.collective_id = e.collective_id
        WHERE e.collective <> 'barrier' AND e.group_size IS DISTINCT FROM 1
    )

SELECT
    e.trace, e.rank, e.device, e.event_id, e.collective, e.group_size, e.message_bytes, e.wire_bytes,
    e.step, e.ts_ns, e.dur_ns, e.transfer_ns, e.seen_link, g.link, g.link_bw_gb_per_s
FROM events AS e
LEFT JOIN _group_links AS g
    ON g.trace = e.trace
    AND g.group_size IS NOT DISTINCT FROM e.group_size
    AND g.seen_link IS NOT DISTINCT FROM e.seen_link
