-- @view     _exposed_transfers
-- @summary  What each rank exposes of the transfer of its communication calls in a step, by kind,
--           process group, dimension and size; mean over the steps that count and over its devices.
-- @materialize session
-- @partition rank
-- @requires _rank_account collectives busy_intervals
-- @reads    _compute_spans collective_calls _account_windows _traffic_dims _group_links
--           process_groups
-- @caveat   A call that is not matched over the ranks counts as a whole, waiting included
--           (is_matched is false). Of transfers at the same time, the one that began first counts.
--           A transfer is of the step in which it ends, or of the last one where it begins before
--           that one's end. message_bytes is the largest of the ranks; uneven: they send unlike
--           amounts. dim is NULL where nothing but the order of the ranks says one.
WITH
    shares AS (
        SELECT
            c.trace, c.rank, coalesce(c.device, -1) AS device_key, c.event_id, c.collective,
            c.pg_id, c.group_size, coalesce(m.message_bytes, c.message_bytes) AS message_bytes,
            c.collective = 'all_to_all' AND m.algo_bw_gb_per_s IS NOT NULL AND m.bus_bw_gb_per_s IS NULL
                AS uneven,
            g.link, g.link_bw_gb_per_s,
            CASE WHEN d.mode NOT IN ('stride', 'kernel_name') THEN nullif(d.dim, 'unknown') END AS dim,
            m.transfer_ns IS NOT NULL AS is_matched,
            coalesce(m.transfer_ns, c.dur_ns) AS transfer_ns,
            greatest(c.ts_ns, c.ts_ns + c.dur_ns - m.transfer_ns) AS start_ns,
            c.ts_ns + c.dur_ns AS end_ns
        FROM collectives AS c
        LEFT JOIN collective_calls AS m
            ON m.trace = c.trace AND m.collective_id = c.collective_id
        LEFT JOIN _traffic_dims AS d ON d.trace = c.trace AND d.event_id = c.event_id
        LEFT JOIN _group_links AS g
            ON g.trace = c.trace
            AND g.group_size IS NOT DISTINCT FROM c.group_size
            AND g.seen_link IS NOT DISTINCT FROM m.link
        WHERE c.dur_ns > 0
            AND c.collective <> 'barrier'
            AND c.group_size IS DISTINCT FROM 1
    ),

    disjoint AS (
        SELECT
            trace, rank, device_key, collective, pg_id, group_size, message_bytes, uneven, link,
            link_bw_gb_per_s, dim, is_matched, transfer_ns, end_ns,
            least(end_ns, greatest(start_ns, max(end_ns) OVER (
                PARTITION BY trace, rank, device_key ORDER BY start_ns, end_ns, event_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ))) AS start_ns
        FROM shares
    ),

    -- Compute up to the end, less compute up to the start, hides that much.
    exposed AS (
        SELECT
            d.trace, d.rank, d.collective, d.pg_id, d.group_size, d.message_bytes, d.uneven, d.link,
            d.link_bw_gb_per_s, d.dim, d.is_matched, d.transfer_ns,
            d.end_ns - d.start_ns
                - coalesce(e.before_ns + least(d.end_ns, e.end_ns) - e.start_ns, 0)
                + coalesce(s.before_ns + least(d.start_ns, s.end_ns) - s.start_ns, 0) AS exposed_ns,
            w.is_counted AND d.end_ns - d.transfer_ns < w.end_ns AS is_counted
        FROM disjoint AS d
        ASOF LEFT JOIN _compute_spans AS s
            ON s.trace = d.trace AND s.rank = d.rank AND s.device_key = d.device_key
            AND s.start_ns <= d.start_ns
        ASOF LEFT JOIN _compute_spans AS e
            ON e.trace = d.trace AND e.rank = d.rank AND e.device_key = d.device_key
            AND e.start_ns <= d.end_ns
        ASOF INNER JOIN _account_windows AS w
            ON w.trace = d.trace AND w.rank = d.rank AND w.start_ns < d.end_ns
    ),

    -- Steps that count, times devices.
    spans AS (
        SELECT r.trace, r.rank, r.window_count * d.device_count AS share_count
        FROM (SELECT DISTINCT trace, rank, window_count FROM _rank_account) AS r
        INNER JOIN (
            SELECT trace, rank, count(DISTINCT coalesce(device, -1)) AS device_count
            FROM busy_intervals
            GROUP BY trace, rank
        ) AS d ON d.trace = r.trace AND d.rank = r.rank
    )

SELECT
    x.trace, x.rank, x.collective, x.pg_id, p.pg_desc, x.dim, x.group_size, x.message_bytes,
    x.uneven, x.link, x.link_bw_gb_per_s, x.is_matched,
    CAST(count(*) AS DOUBLE) / s.share_count AS calls,
    sum(x.transfer_ns) / 1e6 / s.share_count AS transfer_ms,
    sum(x.exposed_ns) / 1e6 / s.share_count AS exposed_ms
FROM exposed AS x
INNER JOIN spans AS s ON s.trace = x.trace AND s.rank = x.rank
LEFT JOIN process_groups AS p ON p.trace = x.trace AND p.pg_id = x.pg_id
WHERE x.is_counted
GROUP BY
    x.trace, x.rank, x.collective, x.pg_id, p.pg_desc, x.dim, x.group_size, x.message_bytes,
    x.uneven, x.link, x.link_bw_gb_per_s, x.is_matched, s.share_count
