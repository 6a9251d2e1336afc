-- @metric   busbw_utilization_ratio
-- @version  1
-- @area     bandwidth
-- @summary  Bus bandwidth of the communication calls as a share of the bandwidth of the link that
--           the card states, mean over the calls.
-- @grain    trace
-- @requires collectives cards
-- @reads    _bus_calls _sized_calls _size_reasons
-- @value    busbw_utilization_ratio
-- @alias    bandwidth_utilization allreduce_model_utilization
-- @coverage link_coverage_ratio | one message size of all ranks, group size, time and link are
-- @reason   (SELECT why FROM _size_reasons WHERE spoken = 'call')
--           | no call of more than one rank (beside barriers) states one size above 0 for all its
--           ranks and has a duration above 0
-- @check    (SELECT count(*) FROM cards WHERE scale_up_gbit_per_s > 0 OR scale_out_gbit_per_s > 0)
--           > 0
--           | the workload card states no link bandwidth
-- @null     no call has a bus bandwidth and a link whose bandwidth is known
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   busbw_utilization_ratio DOUBLE value ratio higher | Mean over the calls of bus
--           bandwidth / link bandwidth: each call counts the same.
-- @column   weighted_ratio DOUBLE value ratio | Sum of the bus bytes / what the links could have
--           carried in the same times: large calls count more.
-- @column   median_ratio DOUBLE value ratio | Median over the calls.
-- @column   calls BIGINT value calls | Calls of more than one rank that are not known to be empty,
--           barriers left out: a matched call once (the message is the largest of a rank), an
--           unmatched event as it is.
-- @column   calls_with_link BIGINT value calls | Calls that count.
-- @column   link_coverage_ratio DOUBLE value ratio | calls_with_link / calls.
-- @column   by_type LIST value - | By collective and link: calls, calls_with_link,
--           link_bw_gb_per_s, mean_ratio, weighted_ratio, median_ratio.
-- @warn     busbw_utilization_ratio > 1
--           | the share is above 100 %: the card states less link bandwidth than the calls had, or
--           that of another link
-- @warn     (SELECT sum(even_calls) < sum(filled_calls) FROM _sized_calls)
--           | all-to-alls whose splits differ have no bus bandwidth and do not count
-- @caveat   Scale-up holds for calls inside a node, scale-out between nodes, Gbit/s / 8; bus
--           bandwidth is that of one direction, so a card that states both directions together
--           halves the ratio.
-- @caveat   The tool that set the older name takes all-reduces of rank 0 alone, without the factor
--           2, against 100 GB/s.
-- @source   nccl-tests doc/PERFORMANCE.md (bus factors); metrics 2.D allreduce_model_utilization
--           (defects D38, D39)
WITH
    calls AS (
        SELECT
            trace, collective, link, link_bw_gb_per_s,
            CASE WHEN link_bw_gb_per_s IS NOT NULL THEN bus_bytes END AS bus_bytes,
            CASE WHEN bus_bytes IS NOT NULL THEN link_bw_gb_per_s * transfer_ns END AS possible_bytes,
            bus_bw_gb_per_s / link_bw_gb_per_s AS utilization_ratio
        FROM _bus_calls
    ),

    kinds AS (
        SELECT
            trace, collective, link, count(*) AS calls, count(utilization_ratio) AS calls_with_link,
            max(link_bw_gb_per_s) AS link_bw_gb_per_s,
            avg(utilization_ratio ORDER BY utilization_ratio) AS mean_ratio,
            sum(bus_bytes ORDER BY bus_bytes) / sum(possible_bytes ORDER BY possible_bytes) AS weighted_ratio,
            quantile_cont(utilization_ratio, 0.5) AS median_ratio
        FROM calls
        GROUP BY trace, collective, link
    ),

    kind_lists AS (
        SELECT
            trace,
            array_agg({
                collective: collective, link: link, calls: calls, calls_with_link: calls_with_link,
                link_bw_gb_per_s: link_bw_gb_per_s, mean_ratio: mean_ratio,
                weighted_ratio: weighted_ratio, median_ratio: median_ratio
            } ORDER BY collective, link) AS by_type
        FROM kinds
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace, count(*) AS calls, count(utilization_ratio) AS calls_with_link,
            avg(utilization_ratio ORDER BY utilization_ratio) AS busbw_utilization_ratio,
            sum(bus_bytes ORDER BY bus_bytes) / sum(possible_bytes ORDER BY possible_bytes) AS weighted_ratio,
            quantile_cont(utilization_ratio, 0.5) AS median_ratio
        FROM calls
        GROUP BY trace
    )

SELECT
    t.trace, t.busbw_utilization_ratio, t.weighted_ratio, t.median_ratio, t.calls, t.calls_with_link,
    CAST(t.calls_with_link AS DOUBLE) / t.calls AS link_coverage_ratio, k.by_type
FROM totals AS t
INNER JOIN kind_lists AS k ON k.trace = t.trace
ORDER BY t.trace
