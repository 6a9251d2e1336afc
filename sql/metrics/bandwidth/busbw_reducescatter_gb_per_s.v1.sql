-- @metric   busbw_reducescatter_gb_per_s
-- @version  1
-- @area     bandwidth
-- @summary  Bus bandwidth of a reduce-scatter: median over the calls of (n - 1) / n x message size
--           / transfer time.
-- @grain    trace
-- @requires collectives
-- @reads    _bus_kinds _sized_calls _comm_events _size_reasons
-- @value    busbw_reducescatter_gb_per_s
-- @alias    busbw_reducescatter bandwidth_utilization_reducescatter_group_6
--           bandwidth_utilization_reducescatter
-- @coverage size_coverage_ratio | message size, group size and time are
-- @reason   (SELECT why FROM _size_reasons WHERE spoken = 'reduce-scatter')
--           | no reduce-scatter of more than one rank states a size above 0 and has a duration
--           above 0
-- @null     the group size of no reduce-scatter of known size and time is known
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   busbw_reducescatter_gb_per_s DOUBLE value gb_per_s higher | Median over the calls,
--           interpolated; the message is the input, n the ranks of the group, the time that of the
--           rank that needs least.
-- @column   p10_gb_per_s DOUBLE value gb_per_s | 10th percentile over the calls, interpolated.
-- @column   p90_gb_per_s DOUBLE value gb_per_s | 90th percentile over the calls, interpolated.
-- @column   mean_gb_per_s DOUBLE value gb_per_s | Mean over the calls: each counts the same.
-- @column   weighted_gb_per_s DOUBLE value gb_per_s | Sum of the bus bytes / sum of the transfer
--           times: large calls count more.
-- @column   utilization_pct DOUBLE value pct | Median of 100 x bus bandwidth / link bandwidth of
--           the card (Gbit/s / 8; scale-up inside a node, scale-out between nodes); NULL where the
--           link or its bandwidth is unknown.
-- @column   calls BIGINT value calls | Calls that are not known to be empty: over all their ranks
--           once where they are matched (the message is the largest of a rank), else events.
-- @column   calls_with_size BIGINT value calls | Calls that count.
-- @column   size_coverage_ratio DOUBLE value ratio | calls_with_size / calls.
-- @column   by_group LIST value - | By group size and link: calls, calls_with_size, message_bytes,
--           p10, p50, p90, mean and weighted bandwidth, link_bw_gb_per_s, utilization_pct.
-- @warn     utilization_pct > 100
--           | utilization_pct is above 100 %: the card states less link bandwidth than the calls
--           had, or that of another link
-- @warn     (SELECT count(*) FILTER (WHERE collective_id IS NULL) > 0.05 * count(*) FROM
--           _comm_events WHERE collective = 'reduce_scatter' AND message_bytes > 0 AND group_size
--           IS DISTINCT FROM 1)
--           | reduce-scatters that are not matched over the ranks hold the waiting for late ranks:
--           the figure is a lower bound
-- @caveat   The tool that set the older name gives 2^30 bytes per second of the events of one rank
--           (7.4 % lower).
-- @source   nccl-tests doc/PERFORMANCE.md (bus factors); metrics 2.D busbw (defects D35, D36)
SELECT
    trace, p50_gb_per_s AS busbw_reducescatter_gb_per_s, p10_gb_per_s, p90_gb_per_s, mean_gb_per_s,
    weighted_gb_per_s, utilization_pct, calls, calls_with_size, size_coverage_ratio, by_group
FROM _bus_kinds
WHERE collective = 'reduce_scatter'
ORDER BY trace
