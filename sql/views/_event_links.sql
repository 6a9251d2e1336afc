-- @view     _event_links
-- @summary  Communication events of more than one rank with the link that they use, its bandwidth by the card, and the shortest duration of their call over its ranks.
-- @requires collectives collective_calls _card_links
-- @caveat   Where the ranks do not say the link, the card does: a job of one node is intra, a group larger than a node inter.
WITH
    linked AS (
        SELECT
            e.trace, e.rank, e.device, e.event_id, e.collective, e.group_size, e.message_bytes, e.wire_bytes,
            e.step, e.ts_ns, e.dur_ns,
            coalesce(c.transfer_ns, e.dur_ns) AS transfer_ns,
            c.link AS seen_link,
            coalesce(
                c.link,
                CASE
                    WHEN l.job_size <= l.node_size THEN 'intra'
                    WHEN e.group_size > l.node_size THEN 'inter'
                END
            ) AS link,
            l.intra_gb_per_s, l.inter_gb_per_s
        FROM collectives AS e
        LEFT JOIN collective_calls AS c ON c.trace = e.trace AND c.collective_id = e.collective_id
        LEFT JOIN _card_links AS l ON l.trace = e.trace
        WHERE e.collective <> 'barrier' AND e.group_size IS DISTINCT FROM 1
    )

SELECT
    trace, rank, device, event_id, collective, group_size, message_bytes, wire_bytes, step, ts_ns, dur_ns,
    transfer_ns, seen_link, link,
    CASE link WHEN 'intra' THEN intra_gb_per_s WHEN 'inter' THEN inter_gb_per_s END AS link_bw_gb_per_s
FROM linked
