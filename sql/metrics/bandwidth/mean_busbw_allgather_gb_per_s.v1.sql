-- @metric   mean_busbw_allgather_gb_per_s
-- @version  1
-- @area     bandwidth
-- @summary  Mean bus bandwidth of the all-gather calls: each call counts the same.
-- @grain    trace
-- @requires collectives
-- @reads    _bus_kinds _sized_calls
-- @value    mean_busbw_allgather_gb_per_s
-- @alias    avg_allgather_bandwidth avg_allgather_bandwidth_group_2
-- @coverage size_coverage_ratio | message size, group size and time are
-- @check    (SELECT count(*) FROM collectives WHERE collective = 'all_gather') > 0
--           | the trace has no all-gather
-- @check    (SELECT count(*) FROM _sized_calls WHERE collective = 'all_gather') > 0
--           | no all-gather has more than one rank
-- @check    (SELECT sum(stated_calls) FROM _sized_calls WHERE collective = 'all_gather') > 0
--           | the trace states no message size of any all-gather
-- @check    (SELECT sum(filled_calls) FROM _sized_calls WHERE collective = 'all_gather') > 0
--           | every all-gather of known size carries 0 bytes
-- @check    (SELECT sum(even_timed_calls) FROM _sized_calls WHERE collective = 'all_gather') > 0
--           | no all-gather of known size has a duration above 0
-- @null     the group size of no all-gather of known size and time is known
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   mean_busbw_allgather_gb_per_s DOUBLE value gb_per_s higher | Mean over the calls of (n
--           - 1) / n x message size / transfer time.
-- @column   weighted_gb_per_s DOUBLE value gb_per_s | Sum of the bus bytes / sum of the transfer
--           times: large calls count more.
-- @column   median_gb_per_s DOUBLE value gb_per_s | Median over the calls, as in
--           busbw_allgather_gb_per_s.
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
    trace, mean_gb_per_s AS mean_busbw_allgather_gb_per_s, weighted_gb_per_s,
    p50_gb_per_s AS median_gb_per_s, calls, calls_with_size, size_coverage_ratio
FROM _bus_kinds
WHERE collective = 'all_gather'
ORDER BY trace
