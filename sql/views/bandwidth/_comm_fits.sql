-- @view     _comm_fits
-- @summary  Hockney fit of the calls of each kind, group size and link class, with the bus
--           bandwidth that follows from it.
-- @requires _comm_calls bus_factors
WITH
    calls AS (
        SELECT
            trace, collective, link, message_bytes, transfer_ns,
            coalesce(group_size, card_size) AS group_size
        FROM _comm_calls
        WHERE message_bytes > 0 AND transfer_ns > 0 AND NOT uneven
    ),

    fits AS (
        SELECT
            trace, collective, group_size, link,
            hockney_fit(array_agg({bytes: message_bytes, seconds: transfer_ns / 1e9})) AS fit
        FROM calls
        GROUP BY trace, collective, group_size, link
    ),

    factors AS (
        SELECT
            t.trace, t.collective, t.group_size, t.link, t.fit,
            CASE
                -- In a group of one nothing goes to another rank.
                WHEN t.group_size = 1 THEN NULL
                WHEN NOT f.in_group THEN f.factor
                WHEN t.group_size > 1 THEN f.factor * (t.group_size - 1) / t.group_size
            END AS bus_factor
        FROM fits AS t
        LEFT JOIN bus_factors AS f ON f.collective = t.collective
    )

SELECT
    trace, collective, group_size, link, fit,
    bus_factor * fit.bandwidth_bytes_per_s / 1e9 AS bus_bw_gb_per_s
FROM factors
