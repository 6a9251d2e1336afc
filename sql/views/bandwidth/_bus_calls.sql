-- @view     _bus_calls
-- @summary  Calls of more than one rank that carry something, once each, with their bus bandwidth
--           and the bandwidth of the link that the card states for them.
-- @requires _comm_calls _group_links bus_factors
-- @caveat   bus_bytes and bus_bw_gb_per_s are NULL without size, time or bus factor, and of an
--           uneven all-to-all.
WITH
    calls AS (
        SELECT
            c.trace, c.collective, c.message_bytes, c.transfer_ns, c.uneven,
            coalesce(c.group_size, c.card_size) AS group_size,
            g.link, g.link_bw_gb_per_s
        FROM _comm_calls AS c
        LEFT JOIN _group_links AS g
            ON g.trace = c.trace
            AND g.group_size IS NOT DISTINCT FROM c.group_size
            AND g.seen_link IS NOT DISTINCT FROM c.link
        WHERE c.collective <> 'barrier'
            AND coalesce(c.group_size, c.card_size) IS DISTINCT FROM 1
            AND c.message_bytes IS DISTINCT FROM 0
    ),

    factors AS (
        SELECT
            c.trace, c.collective, c.group_size, c.link, c.message_bytes, c.transfer_ns, c.uneven,
            c.link_bw_gb_per_s,
            CASE
                WHEN c.uneven OR coalesce(c.transfer_ns, 0) <= 0 THEN NULL
                WHEN NOT f.in_group THEN f.factor
                WHEN c.group_size > 1 THEN f.factor * (c.group_size - 1) / c.group_size
            END AS bus_factor
        FROM calls AS c
        LEFT JOIN bus_factors AS f ON f.collective = c.collective
    )

SELECT
    trace, collective, group_size, link, message_bytes, transfer_ns, uneven,
    CAST(bus_factor * message_bytes AS DOUBLE) AS bus_bytes,
    CAST(bus_factor * message_bytes AS DOUBLE) / transfer_ns AS bus_bw_gb_per_s,
    link_bw_gb_per_s
FROM factors
