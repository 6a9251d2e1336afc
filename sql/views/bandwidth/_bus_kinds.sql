-- @view     _bus_kinds
-- @summary  Bus bandwidth of the calls of each kind: percentiles, means, share of the link, and the
--           same by group size and link.
-- @requires _bus_calls
WITH
    groups AS (
        SELECT
            trace, collective, group_size, link,
            count(*) AS calls,
            count(bus_bw_gb_per_s) AS calls_with_size,
            TRY_CAST(sum(message_bytes) FILTER (WHERE bus_bw_gb_per_s IS NOT NULL) AS BIGINT) AS message_bytes,
            sum(bus_bytes ORDER BY bus_bytes)
                / sum(transfer_ns) FILTER (WHERE bus_bw_gb_per_s IS NOT NULL) AS weighted_gb_per_s,
            avg(bus_bw_gb_per_s ORDER BY bus_bw_gb_per_s) AS mean_gb_per_s,
            quantile_cont(bus_bw_gb_per_s, 0.1) AS p10_gb_per_s,
            quantile_cont(bus_bw_gb_per_s, 0.5) AS p50_gb_per_s,
            quantile_cont(bus_bw_gb_per_s, 0.9) AS p90_gb_per_s,
            max(link_bw_gb_per_s) AS link_bw_gb_per_s
        FROM _bus_calls
        GROUP BY trace, collective, group_size, link
    ),

    group_lists AS (
        SELECT
            trace, collective,
            array_agg({
                group_size: group_size, link: link, calls: calls, calls_with_size: calls_with_size,
                message_bytes: message_bytes, p10_gb_per_s: p10_gb_per_s, p50_gb_per_s: p50_gb_per_s,
                p90_gb_per_s: p90_gb_per_s, mean_gb_per_s: mean_gb_per_s,
                weighted_gb_per_s: weighted_gb_per_s, link_bw_gb_per_s: link_bw_gb_per_s,
                utilization_pct: 100 * p50_gb_per_s / link_bw_gb_per_s
            } ORDER BY group_size, link) AS by_group
        FROM groups
        GROUP BY trace, collective
    ),

    kinds AS (
        SELECT
            trace, collective,
            count(*) AS calls,
            count(bus_bw_gb_per_s) AS calls_with_size,
            sum(bus_bytes ORDER BY bus_bytes)
                / sum(transfer_ns) FILTER (WHERE bus_bw_gb_per_s IS NOT NULL) AS weighted_gb_per_s,
            avg(bus_bw_gb_per_s ORDER BY bus_bw_gb_per_s) AS mean_gb_per_s,
            quantile_cont(bus_bw_gb_per_s, 0.1) AS p10_gb_per_s,
            quantile_cont(bus_bw_gb_per_s, 0.5) AS p50_gb_per_s,
            quantile_cont(bus_bw_gb_per_s, 0.9) AS p90_gb_per_s,
            quantile_cont(100 * bus_bw_gb_per_s / link_bw_gb_per_s, 0.5) AS utilization_pct
        FROM _bus_calls
        GROUP BY trace, collective
    )

SELECT
    k.trace, k.collective, k.calls, k.calls_with_size,
    CAST(k.calls_with_size AS DOUBLE) / k.calls AS size_coverage_ratio,
    k.weighted_gb_per_s, k.mean_gb_per_s, k.p10_gb_per_s, k.p50_gb_per_s, k.p90_gb_per_s,
    k.utilization_pct, g.by_group
FROM kinds AS k
INNER JOIN group_lists AS g ON g.trace = k.trace AND g.collective = k.collective
