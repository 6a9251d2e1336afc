-- @view     _comm_fits
-- @summary  Hockney fit of the calls of each kind, group size and link class, with the bus bandwidth that follows from it.
-- @requires _comm_calls
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
            trace, collective, group_size, link, fit,
            CASE
                WHEN collective IN ('broadcast', 'reduce', 'send', 'recv', 'send_recv') THEN 1.0
                WHEN group_size < 2 THEN NULL
                WHEN collective = 'all_reduce' THEN 2.0 * (group_size - 1) / group_size
                WHEN collective IN ('all_gather', 'reduce_scatter', 'all_to_all')
                    THEN 1.0 * (group_size - 1) / group_size
            END AS bus_factor
        FROM fits
    )

SELECT
    trace, collective, group_size, link, fit,
    bus_factor * fit.bandwidth_bytes_per_s / 1e9 AS bus_bw_gb_per_s
FROM factors
