-- @view     nccl_summary_implicit_sync
-- @summary  Matched calls that synchronise their ranks, by kind, type and size: latency, skews and
--           bandwidth.
-- @requires nccl_implicit_sync
-- @null     no such call was found on every ingested rank of its group
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   collective VARCHAR dim - | Kind.
-- @column   dtype VARCHAR dim - | Element type as recorded.
-- @column   in_elems BIGINT dim - | Elements of the input of a rank.
-- @column   group_size BIGINT dim - | Ranks of the group.
-- @column   pg_names VARCHAR value - | Process groups whose calls these are.
-- @column   message_mb DOUBLE value mb | Message size S, 10^6 bytes.
-- @column   mean_latency_us DOUBLE value us lower | Mean over the calls: shortest duration over the
--           ranks.
-- @column   median_latency_us DOUBLE value us lower | Median over the calls: shortest duration over
--           the ranks.
-- @column   min_latency_us DOUBLE value us | Least over the calls: shortest duration over the
--           ranks.
-- @column   max_latency_us DOUBLE value us | Largest over the calls: shortest duration over the
--           ranks.
-- @column   mean_start_skew_us DOUBLE value us lower | Mean over the calls: last start - first
--           start.
-- @column   median_start_skew_us DOUBLE value us lower | Median over the calls: last start - first
--           start.
-- @column   min_start_skew_us DOUBLE value us | Least over the calls: last start - first start.
-- @column   max_start_skew_us DOUBLE value us | Largest over the calls: last start - first start.
-- @column   mean_end_skew_us DOUBLE value us lower | Mean over the calls: last end - first end.
-- @column   median_end_skew_us DOUBLE value us lower | Median over the calls: last end - first end.
-- @column   min_end_skew_us DOUBLE value us | Least over the calls: last end - first end.
-- @column   max_end_skew_us DOUBLE value us | Largest over the calls: last end - first end.
-- @column   mean_algo_bw_gb_per_s DOUBLE value gb_per_s higher | Mean over the calls: message size
--           / latency.
-- @column   median_algo_bw_gb_per_s DOUBLE value gb_per_s higher | Median over the calls: message
--           size / latency.
-- @column   min_algo_bw_gb_per_s DOUBLE value gb_per_s | Least over the calls: message size /
--           latency.
-- @column   max_algo_bw_gb_per_s DOUBLE value gb_per_s | Largest over the calls: message size /
--           latency.
-- @column   mean_bus_bw_gb_per_s DOUBLE value gb_per_s higher | Mean over the calls: algorithm
--           bandwidth x bus factor.
-- @column   median_bus_bw_gb_per_s DOUBLE value gb_per_s higher | Median over the calls: algorithm
--           bandwidth x bus factor.
-- @column   min_bus_bw_gb_per_s DOUBLE value gb_per_s | Least over the calls: algorithm bandwidth x
--           bus factor.
-- @column   max_bus_bw_gb_per_s DOUBLE value gb_per_s | Largest over the calls: algorithm bandwidth
--           x bus factor.
-- @column   calls BIGINT value calls | Calls.
-- @column   total_latency_ms DOUBLE value ms lower | Latencies added up.
-- @column   clock_aligned BOOLEAN value - | Whether the offsets of the clocks of the ranks were
--           taken away: where one exceeds both its uncertainty and the median lag of the calls.
-- @heading  collective | Collective name
-- @heading  in_elems | In msg nelems
-- @heading  group_size | Group size
-- @heading  pg_names | Process Group Name
-- @heading  message_mb | Full msg size (MB)
-- @heading  mean_latency_us | comm_latency_mean (us)
-- @heading  median_latency_us | comm_latency_median (us)
-- @heading  min_latency_us | comm_latency_min (us)
-- @heading  max_latency_us | comm_latency_max (us)
-- @heading  mean_start_skew_us | skew in start time_mean (us)
-- @heading  median_start_skew_us | skew in start time_median (us)
-- @heading  min_start_skew_us | skew in start time_min (us)
-- @heading  max_start_skew_us | skew in start time_max (us)
-- @heading  mean_end_skew_us | skew in end time_mean (us)
-- @heading  median_end_skew_us | skew in end time_median (us)
-- @heading  min_end_skew_us | skew in end time_min (us)
-- @heading  max_end_skew_us | skew in end time_max (us)
-- @heading  mean_algo_bw_gb_per_s | algo bw (GB/s)_mean
-- @heading  median_algo_bw_gb_per_s | algo bw (GB/s)_median
-- @heading  min_algo_bw_gb_per_s | algo bw (GB/s)_min
-- @heading  max_algo_bw_gb_per_s | algo bw (GB/s)_max
-- @heading  mean_bus_bw_gb_per_s | bus bw (GB/s)_mean
-- @heading  median_bus_bw_gb_per_s | bus bw (GB/s)_median
-- @heading  min_bus_bw_gb_per_s | bus bw (GB/s)_min
-- @heading  max_bus_bw_gb_per_s | bus bw (GB/s)_max
-- @heading  calls | count
-- @heading  total_latency_ms | Total comm latency (ms)
-- @caveat   Calls of groups of one size are one row, whichever groups they are.
-- @source   metrics 7.2 nccl_summary_implicit_sync, with the size of the group in the key:
--           bandwidths of unlike groups are not mixed
SELECT
    trace, collective, dtype, in_elems, group_size,
    string_agg(DISTINCT pg_name, ', ' ORDER BY pg_name) AS pg_names,
    max(message_mb) AS message_mb,
    avg(latency_us ORDER BY latency_us) AS mean_latency_us,
    quantile_cont(latency_us, 0.5) AS median_latency_us,
    min(latency_us) AS min_latency_us,
    max(latency_us) AS max_latency_us,
    avg(start_skew_us ORDER BY start_skew_us) AS mean_start_skew_us,
    quantile_cont(start_skew_us, 0.5) AS median_start_skew_us,
    min(start_skew_us) AS min_start_skew_us,
    max(start_skew_us) AS max_start_skew_us,
    avg(end_skew_us ORDER BY end_skew_us) AS mean_end_skew_us,
    quantile_cont(end_skew_us, 0.5) AS median_end_skew_us,
    min(end_skew_us) AS min_end_skew_us,
    max(end_skew_us) AS max_end_skew_us,
    avg(algo_bw_gb_per_s ORDER BY algo_bw_gb_per_s) AS mean_algo_bw_gb_per_s,
    quantile_cont(algo_bw_gb_per_s, 0.5) AS median_algo_bw_gb_per_s,
    min(algo_bw_gb_per_s) AS min_algo_bw_gb_per_s,
    max(algo_bw_gb_per_s) AS max_algo_bw_gb_per_s,
    avg(bus_bw_gb_per_s ORDER BY bus_bw_gb_per_s) AS mean_bus_bw_gb_per_s,
    quantile_cont(bus_bw_gb_per_s, 0.5) AS median_bus_bw_gb_per_s,
    min(bus_bw_gb_per_s) AS min_bus_bw_gb_per_s,
    max(bus_bw_gb_per_s) AS max_bus_bw_gb_per_s,
    count(*) AS calls,
    sum(latency_us ORDER BY latency_us) / 1e3 AS total_latency_ms,
    bool_or(clock_aligned) AS clock_aligned
FROM nccl_implicit_sync
GROUP BY trace, collective, dtype, in_elems, group_size
ORDER BY trace, total_latency_ms DESC NULLS LAST, collective, dtype, in_elems, group_size
