-- @metric   mean_busbw_allreduce_gb_per_s
-- @version  1
-- @area     bandwidth
-- @summary  Mean bus bandwidth of the all-reduce calls: each call counts the same.
-- @grain    trace
-- @requires collectives
-- @reads    _bus_kinds _sized_calls _size_reasons
-- @value    mean_busbw_allreduce_gb_per_s
-- @alias    avg_allreduce_bandwidth avg_allreduce_bandwidth_group_2
-- @coverage size_coverage_ratio | message size, group size and time are
-- @reason   (SELECT why FROM _size_reasons WHERE spoken = 'all-reduce')
--           | no all-reduce of more than one rank states a size above 0 and has a duration above 0
-- @null     the group size of no all-reduce of known size and time is known
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   mean_busbw_allreduce_gb_per_s DOUBLE value gb_per_s higher | Mean over the calls of 2
--           (n - 1) / n x message size / transfer time.
-- @column   weighted_gb_per_s DOUBLE value gb_per_s | Sum of the bus bytes / sum of the transfer
--           times: large calls count more.
-- @column   median_gb_per_s DOUBLE value gb_per_s | Median over the calls, as in
--           busbw_allreduce_gb_per_s.
-- @column   calls BIGINT value calls | Calls that are not known to be empty: over all their ranks
--           once where they are matched (the message is the largest of a rank), else events.
-- @column   calls_with_size BIGINT value calls | Calls that count.
-- @column   size_coverage_ratio DOUBLE value ratio | calls_with_size / calls.
-- @caveat   Small calls pull a mean of rates down: what the network carried per second is
--           weighted_gb_per_s.
-- @caveat   The tool that set the older name takes the events of each rank, with the number of
--           files for the group size.
-- @source   nccl-tests doc/PERFORMANCE.md (bus factors); metrics 2.D collective_bandwidth_gbps
--           (defects D29, D39)
SELECT
    trace, mean_gb_per_s AS mean_busbw_allreduce_gb_per_s, weighted_gb_per_s,
    p50_gb_per_s AS median_gb_per_s, calls, calls_with_size, size_coverage_ratio
FROM _bus_kinds
WHERE collective = 'all_reduce'
ORDER BY trace
