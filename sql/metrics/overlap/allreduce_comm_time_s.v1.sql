-- @metric   allreduce_comm_time_s
-- @version  1
-- @area     overlap
-- @summary  Time in all-reduce events, summed over all ranks.
-- @grain    trace
-- @requires collectives
-- @reads    _windows
-- @value    allreduce_comm_time_s
-- @check    (SELECT count(dur_ns) FROM collectives WHERE collective = 'all_reduce') > 0
--           | the trace has no all_reduce
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   allreduce_comm_time_s DOUBLE value s lower | Sum of the durations of all_reduce events,
--           all ranks.
-- @column   mean_per_rank_s DOUBLE value s | The same, mean over the ranks that have a window; 0
--           for one without such events.
-- @column   per_rank MAP value s | Sum of each rank.
-- @caveat   Durations are added up, also where calls of one rank overlap, and with the time in
--           which it waits for the others. The tool that set the name also counts fused
--           reduce-scatters and halves of asynchronous pairs.
-- @source   metrics 2.C allreduce_comm_time_s (defects D21, D24)
WITH
    durations AS (
        SELECT trace, rank, sum(dur_ns) AS sum_ns
        FROM collectives
        WHERE collective = 'all_reduce'
        GROUP BY trace, rank
    ),

    per_rank AS (
        SELECT r.trace, r.rank, coalesce(d.sum_ns, 0) AS sum_ns
        FROM _windows AS r
        LEFT JOIN durations AS d ON d.trace = r.trace AND d.rank = r.rank
    )

SELECT
    trace,
    sum(sum_ns) / 1e9 AS allreduce_comm_time_s,
    avg(sum_ns) / 1e9 AS mean_per_rank_s,
    map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(sum_ns / 1e9 ORDER BY rank))
        AS per_rank
FROM per_rank
GROUP BY trace
ORDER BY trace
