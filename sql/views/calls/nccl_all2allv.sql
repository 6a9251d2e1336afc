-- @view     nccl_all2allv
-- @summary  Matched uneven all-to-all calls: data, wall time, throughput and imbalance over the
--           ranks.
-- @requires _matched_shares
-- @null     no uneven all-to-all was found on every ingested rank of its group
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   collective_id BIGINT dim - | Call over the ranks.
-- @column   pg_name VARCHAR value - | Process group as recorded.
-- @column   pg_ranks VARCHAR value - | Its ranks, as a list.
-- @column   group_size BIGINT value - | Ranks of the group.
-- @column   dtype VARCHAR value - | Element type as recorded.
-- @column   total_mb DOUBLE value mb | Inputs of all ranks, 10^6 bytes.
-- @column   total_elems BIGINT value - | Elements of them.
-- @column   wall_us DOUBLE value us lower | First start to last end.
-- @column   max_dur_us DOUBLE value us lower | Longest duration of a rank.
-- @column   min_dur_us DOUBLE value us lower | Shortest.
-- @column   mean_dur_us DOUBLE value us lower | Mean.
-- @column   throughput_gb_per_s DOUBLE value gb_per_s higher | Inputs of all ranks / wall time; GB
--           is 10^9 bytes.
-- @column   max_rank_gb_per_s DOUBLE value gb_per_s | Largest input / duration of a rank.
-- @column   min_rank_gb_per_s DOUBLE value gb_per_s | Least.
-- @column   size_imbalance_ratio DOUBLE value ratio lower | Largest input / mean input.
-- @column   start_skew_us DOUBLE value us lower | Last start - first start.
-- @column   end_skew_us DOUBLE value us lower | Last end - first end.
-- @column   by_rank LIST value - | Of each rank: start since the first communication of the trace,
--           duration, wait (microseconds), sizes.
-- @column   clock_aligned BOOLEAN value - | Whether the offsets of the clocks of the ranks were
--           taken away: where one exceeds both its uncertainty and the median lag of the calls.
-- @heading  pg_name | Process Group Name
-- @heading  pg_ranks | Process Group Ranks
-- @heading  group_size | Group size
-- @heading  total_mb | total data communicated (MB)
-- @heading  total_elems | total nelems communicated
-- @heading  wall_us | wall_time (us)
-- @heading  max_dur_us | max_rank_dur (us)
-- @heading  min_dur_us | min_rank_dur (us)
-- @heading  mean_dur_us | avg_rank_dur (us)
-- @heading  throughput_gb_per_s | throughput (GB/s)
-- @heading  max_rank_gb_per_s | max_rank_throughput (GB/s)
-- @heading  min_rank_gb_per_s | min_rank_throughput (GB/s)
-- @heading  size_imbalance_ratio | size_imbalance
-- @heading  start_skew_us | skew in start time (us)
-- @heading  end_skew_us | skew in end time (us)
-- @caveat   Who sends how much to whom is in the metric traffic_matrix.
-- @source   metrics 7.2 nccl_all2allv
SELECT
    trace, collective_id, pg_name, pg_ranks, group_size, dtype,
    all_in_bytes / 1e6 AS total_mb,
    all_in_elems AS total_elems,
    (last_end_ns - first_start_ns) / 1e3 AS wall_us,
    max_dur_ns / 1e3 AS max_dur_us,
    min_dur_ns / 1e3 AS min_dur_us,
    mean_dur_ns / 1e3 AS mean_dur_us,
    all_in_bytes / nullif(last_end_ns - first_start_ns, 0) AS throughput_gb_per_s,
    max_rank_gb_per_s,
    min_rank_gb_per_s,
    size_imbalance_ratio,
    start_skew_ns / 1e3 AS start_skew_us,
    end_skew_ns / 1e3 AS end_skew_us,
    by_rank,
    clock_aligned
FROM _matched_shares
WHERE collective = 'all_to_all' AND uneven
ORDER BY trace, first_start_ns, collective_id
