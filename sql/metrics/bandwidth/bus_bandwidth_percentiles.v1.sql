-- @metric   bus_bandwidth_percentiles
-- @version  1
-- @area     bandwidth
-- @summary  Bus bandwidth of the communication calls by kind, message size, group size and link,
--           against the link of the card.
-- @grain    trace
-- @requires collectives
-- @reads    _bus_calls _sized_calls _comm_events _size_reasons
-- @value    p50_gb_per_s
-- @coverage size_coverage_ratio | one message size of all ranks, group size and time are
-- @reason   (SELECT why FROM _size_reasons WHERE spoken = 'call')
--           | no call of more than one rank (beside barriers) states one size above 0 for all its
--           ranks and has a duration above 0
-- @null     no call of known size and time has a bus factor: its group size or its kind is unknown
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   p50_gb_per_s DOUBLE value gb_per_s higher | Median bus bandwidth over the calls of all
--           kinds, interpolated.
-- @column   p10_gb_per_s DOUBLE value gb_per_s | 10th percentile.
-- @column   p90_gb_per_s DOUBLE value gb_per_s | 90th percentile.
-- @column   p99_gb_per_s DOUBLE value gb_per_s | 99th percentile.
-- @column   calls BIGINT value calls | Calls of more than one rank that are not known to be empty,
--           barriers left out: a matched call once (the message is the largest of a rank), an
--           unmatched event as it is.
-- @column   calls_with_size BIGINT value calls | Calls that count.
-- @column   size_coverage_ratio DOUBLE value ratio | calls_with_size / calls.
-- @column   by_size LIST value - | By collective, size (the power of two at or below the message),
--           group_size and link: calls, message_bytes, p10, p50, p90 and p99 of the bus bandwidth,
--           link_bw_gb_per_s of the card (Gbit/s / 8), limit_pct (100 x p50 / it).
-- @warn     list_max(list_transform(by_size, lambda s: s.limit_pct)) > 100
--           | limit_pct of a size is above 100: the card states less link bandwidth than the calls
--           had, or that of another link
-- @warn     (SELECT sum(even_calls) < sum(filled_calls) FROM _sized_calls)
--           | all-to-alls whose splits differ have no bus bandwidth and do not count
-- @warn     (SELECT count(*) FILTER (WHERE collective_id IS NULL) > 0.05 * count(*) FROM
--           _comm_events WHERE collective <> 'barrier' AND message_bytes > 0 AND group_size IS
--           DISTINCT FROM 1)
--           | calls that are not matched over the ranks hold the waiting for late ranks: the figure
--           is a lower bound
-- @source   nccl-tests doc/PERFORMANCE.md (bus factors); metrics 2.D busbw and 7.2
--           nccl_summary_implicit_sync
WITH
    calls AS (
        SELECT
            trace, collective, group_size, link, message_bytes, bus_bw_gb_per_s, link_bw_gb_per_s,
            CAST(power(2, least(floor(log2(message_bytes)), 62)) AS BIGINT) AS size_bytes
        FROM _bus_calls
        WHERE bus_bw_gb_per_s IS NOT NULL
    ),

    sizes AS (
        SELECT
            trace, collective, size_bytes, group_size, link, count(*) AS calls,
            TRY_CAST(sum(message_bytes) AS BIGINT) AS message_bytes,
            quantile_cont(bus_bw_gb_per_s, 0.1) AS p10_gb_per_s,
            quantile_cont(bus_bw_gb_per_s, 0.5) AS p50_gb_per_s,
            quantile_cont(bus_bw_gb_per_s, 0.9) AS p90_gb_per_s,
            quantile_cont(bus_bw_gb_per_s, 0.99) AS p99_gb_per_s,
            max(link_bw_gb_per_s) AS link_bw_gb_per_s
        FROM calls
        GROUP BY trace, collective, size_bytes, group_size, link
    ),

    size_lists AS (
        SELECT
            trace,
            array_agg({
                collective: collective, size_bytes: size_bytes, group_size: group_size, link: link,
                calls: calls, message_bytes: message_bytes, p10_gb_per_s: p10_gb_per_s,
                p50_gb_per_s: p50_gb_per_s, p90_gb_per_s: p90_gb_per_s, p99_gb_per_s: p99_gb_per_s,
                link_bw_gb_per_s: link_bw_gb_per_s, limit_pct: 100 * p50_gb_per_s / link_bw_gb_per_s
            } ORDER BY collective, size_bytes, group_size, link) AS by_size
        FROM sizes
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace, count(*) AS calls, count(bus_bw_gb_per_s) AS calls_with_size,
            quantile_cont(bus_bw_gb_per_s, 0.1) AS p10_gb_per_s,
            quantile_cont(bus_bw_gb_per_s, 0.5) AS p50_gb_per_s,
            quantile_cont(bus_bw_gb_per_s, 0.9) AS p90_gb_per_s,
            quantile_cont(bus_bw_gb_per_s, 0.99) AS p99_gb_per_s
        FROM _bus_calls
        GROUP BY trace
    )

SELECT
    t.trace, t.p50_gb_per_s, t.p10_gb_per_s, t.p90_gb_per_s, t.p99_gb_per_s, t.calls,
    t.calls_with_size, CAST(t.calls_with_size AS DOUBLE) / t.calls AS size_coverage_ratio, s.by_size
FROM totals AS t
LEFT JOIN size_lists AS s ON s.trace = t.trace
ORDER BY t.trace
