-- @view     nccl_summary_all2allv
-- @summary  Matched uneven all-to-all calls by process group and type: data, wall time, throughput,
--           imbalance.
-- @requires nccl_all2allv
-- @null     no uneven all-to-all was found on every ingested rank of its group
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   pg_name VARCHAR dim - | Process group as recorded.
-- @column   pg_ranks VARCHAR dim - | Its ranks, as a list.
-- @column   group_size BIGINT dim - | Ranks of the group.
-- @column   dtype VARCHAR dim - | Element type as recorded.
-- @column   mean_total_mb DOUBLE value mb | Mean of the inputs of all ranks, 10^6 bytes.
-- @column   median_total_mb DOUBLE value mb | Median.
-- @column   min_total_mb DOUBLE value mb | Least.
-- @column   max_total_mb DOUBLE value mb | Largest.
-- @column   mean_wall_us DOUBLE value us lower | Mean of first start to last end.
-- @column   median_wall_us DOUBLE value us lower | Median.
-- @column   min_wall_us DOUBLE value us | Least.
-- @column   max_wall_us DOUBLE value us | Largest.
-- @column   mean_throughput_gb_per_s DOUBLE value gb_per_s higher | Mean of inputs / wall time.
-- @column   median_throughput_gb_per_s DOUBLE value gb_per_s higher | Median.
-- @column   min_throughput_gb_per_s DOUBLE value gb_per_s | Least.
-- @column   max_throughput_gb_per_s DOUBLE value gb_per_s | Largest.
-- @column   mean_size_imbalance_ratio DOUBLE value ratio lower | Mean of largest input / mean
--           input.
-- @column   max_size_imbalance_ratio DOUBLE value ratio lower | Largest.
-- @column   mean_max_dur_us DOUBLE value us lower | Mean of the longest duration of a rank.
-- @column   max_max_dur_us DOUBLE value us lower | Largest.
-- @column   mean_start_skew_us DOUBLE value us lower | Mean of last start - first start.
-- @column   max_start_skew_us DOUBLE value us lower | Largest.
-- @column   mean_end_skew_us DOUBLE value us lower | Mean of last end - first end.
-- @column   max_end_skew_us DOUBLE value us lower | Largest.
-- @column   calls BIGINT value calls | Calls.
-- @column   total_wall_ms DOUBLE value ms lower | Wall times added up.
-- @column   clock_aligned BOOLEAN value - | Whether the offsets of the clocks of the ranks were
--           taken away: where one exceeds both its uncertainty and the median lag of the calls.
-- @heading  pg_name | Process Group Name
-- @heading  pg_ranks | Process Group Ranks
-- @heading  group_size | Group size
-- @heading  calls | count
-- @heading  total_wall_ms | Total wall_time (ms)
-- @source   metrics 7.2 nccl_summary_all2allv
SELECT
    trace, pg_name, pg_ranks, group_size, dtype,
    avg(total_mb ORDER BY total_mb) AS mean_total_mb,
    quantile_cont(total_mb, 0.5) AS median_total_mb,
    min(total_mb) AS min_total_mb,
    max(total_mb) AS max_total_mb,
    avg(wall_us ORDER BY wall_us) AS mean_wall_us,
    quantile_cont(wall_us, 0.5) AS median_wall_us,
    min(wall_us) AS min_wall_us,
    max(wall_us) AS max_wall_us,
    avg(throughput_gb_per_s ORDER BY throughput_gb_per_s) AS mean_throughput_gb_per_s,
    quantile_cont(throughput_gb_per_s, 0.5) AS median_throughput_gb_per_s,
    min(throughput_gb_per_s) AS min_throughput_gb_per_s,
    max(throughput_gb_per_s) AS max_throughput_gb_per_s,
    avg(size_imbalance_ratio ORDER BY size_imbalance_ratio) AS mean_size_imbalance_ratio,
    max(size_imbalance_ratio) AS max_size_imbalance_ratio,
    avg(max_dur_us ORDER BY max_dur_us) AS mean_max_dur_us,
    max(max_dur_us) AS max_max_dur_us,
    avg(start_skew_us ORDER BY start_skew_us) AS mean_start_skew_us,
    max(start_skew_us) AS max_start_skew_us,
    avg(end_skew_us ORDER BY end_skew_us) AS mean_end_skew_us,
    max(end_skew_us) AS max_end_skew_us,
    count(*) AS calls,
    sum(wall_us ORDER BY wall_us) / 1e3 AS total_wall_ms,
    bool_or(clock_aligned) AS clock_aligned
FROM nccl_all2allv
GROUP BY trace, pg_name, pg_ranks, group_size, dtype
ORDER BY trace, total_wall_ms DESC, pg_name, pg_ranks, group_size, dtype
