-- @view     nccl_implicit_sync
-- @summary  Matched all-reduce, all-gather, reduce-scatter and even all-to-all calls: latency, skew
--           over the ranks, bandwidth.
-- @requires _matched_shares
-- @null     no such call was found on every ingested rank of its group
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   collective_id BIGINT dim - | Call over the ranks.
-- @column   pg_name VARCHAR value - | Process group as recorded.
-- @column   pg_ranks VARCHAR value - | Its ranks, as a list.
-- @column   collective VARCHAR value - | Kind.
-- @column   group_size BIGINT value - | Ranks of the group.
-- @column   dtype VARCHAR value - | Element type as recorded.
-- @column   in_elems BIGINT value - | Elements of the input of a rank.
-- @column   out_elems BIGINT value - | Elements of the output of a rank.
-- @column   in_mb DOUBLE value mb | Size of the input of a rank, 10^6 bytes.
-- @column   out_mb DOUBLE value mb | Size of the output of a rank, 10^6 bytes.
-- @column   message_mb DOUBLE value mb | Message size S, 10^6 bytes.
-- @column   latency_us DOUBLE value us lower | Shortest duration over the ranks: that of the rank
--           that waits least.
-- @column   start_skew_us DOUBLE value us lower | Last start - first start.
-- @column   first_rank BIGINT value - | Rank that starts first (the lowest of equals).
-- @column   mean_wait_us DOUBLE value us lower | Mean over the ranks of last start - own start.
-- @column   end_skew_us DOUBLE value us lower | Last end - first end.
-- @column   algo_bw_gb_per_s DOUBLE value gb_per_s higher | S / latency; GB is 10^9 bytes.
-- @column   bus_bw_gb_per_s DOUBLE value gb_per_s higher | Algorithm bandwidth x bus factor of
--           nccl-tests.
-- @column   by_rank LIST value - | Of each rank: start since the first communication of the trace,
--           duration, wait (microseconds), sizes.
-- @column   clock_aligned BOOLEAN value - | Whether the offsets of the clocks of the ranks were
--           taken away: where one exceeds both its uncertainty and the median lag of the calls.
-- @heading  pg_name | Process Group Name
-- @heading  pg_ranks | Process Group Ranks
-- @heading  collective | Collective name
-- @heading  group_size | Group size
-- @heading  in_elems | In msg nelems
-- @heading  out_elems | Out msg nelems
-- @heading  in_mb | In msg size (MB)
-- @heading  out_mb | Out msg size (MB)
-- @heading  message_mb | Full msg size (MB)
-- @heading  latency_us | comm_latency (us)
-- @heading  start_skew_us | skew in start time (us)
-- @heading  first_rank | earliest arrival rank
-- @heading  mean_wait_us | avg_wait_time (us)
-- @heading  end_skew_us | skew in end time (us)
-- @heading  algo_bw_gb_per_s | algo bw (GB/s)
-- @heading  bus_bw_gb_per_s | bus bw (GB/s)
-- @source   metrics 7.2 nccl_implicit_sync
SELECT
    trace, collective_id, pg_name, pg_ranks, collective, group_size, dtype, in_elems, out_elems,
    in_bytes / 1e6 AS in_mb,
    out_bytes / 1e6 AS out_mb,
    message_bytes / 1e6 AS message_mb,
    min_dur_ns / 1e3 AS latency_us,
    start_skew_ns / 1e3 AS start_skew_us,
    list_sort(list_transform(by_rank, lambda s: {wait: -s.wait_time, rank: s.rank}))[1].rank AS first_rank,
    mean_wait_ns / 1e3 AS mean_wait_us,
    end_skew_ns / 1e3 AS end_skew_us,
    algo_bw_gb_per_s,
    bus_bw_gb_per_s,
    by_rank,
    clock_aligned
FROM _matched_shares
WHERE collective IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all') AND NOT uneven
ORDER BY trace, first_start_ns, collective_id
