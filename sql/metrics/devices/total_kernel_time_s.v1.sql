-- @metric   total_kernel_time_s
-- @version  1
-- @area     devices
-- @summary  Durations of the kernels of a rank added up, communication included, mean over ranks.
-- @grain    trace
-- @reads    _windows _rank_times kernel_times _device_counts
-- @value    total_kernel_time_s
-- @check    (SELECT count(*) FROM _device_counts) > 0 | the trace has no device events
-- @check    (SELECT count(*) FROM _device_counts WHERE class = 'graph') = 0
--           | whole CUDA graphs were traced, so that the kernels inside them are not in the trace
-- @null     no rank has an event with a duration
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   total_kernel_time_s DOUBLE value s | Sum of the durations per rank, mean over the ranks
--           that have a window; what runs at the same time counts twice.
-- @column   total_kernel_time_all_ranks_s DOUBLE value s | The sum over all ranks.
-- @column   busy_kernel_time_s DOUBLE value s | Union of the kernels per device, summed over the
--           devices of a rank, mean over ranks.
-- @column   compute_kernel_time_s DOUBLE value s | Sum of the durations of kernels of class
--           compute, mean over ranks.
-- @column   comm_kernel_time_s DOUBLE value s | The same of class comm.
-- @column   kernel_count BIGINT value count | Kernels of all ranks.
-- @column   per_rank MAP value s | Sum of the durations of each rank.
-- @caveat   A kernel of communication lasts as long as it waits for other ranks.
-- @source   metrics 2.A total_kernel_time_s (defect D07: the mean over ranks and the sum over ranks
--           are two fields)
WITH
    sums AS (
        SELECT
            trace, rank,
            sum(dur_ns) AS kernel_ns,
            sum(dur_ns) FILTER (WHERE class = 'compute') AS compute_ns,
            sum(dur_ns) FILTER (WHERE class = 'comm') AS comm_ns,
            sum(events) AS kernels
        FROM kernel_times
        GROUP BY trace, rank
    ),

    per_rank AS (
        SELECT
            r.trace, r.rank,
            TRY_CAST(coalesce(s.kernel_ns, 0) AS BIGINT) AS kernel_ns,
            TRY_CAST(coalesce(s.compute_ns, 0) AS BIGINT) AS compute_ns,
            TRY_CAST(coalesce(s.comm_ns, 0) AS BIGINT) AS comm_ns,
            TRY_CAST(coalesce(s.kernels, 0) AS BIGINT) AS kernels,
            coalesce(t.kernel_ns, 0) AS busy_ns
        FROM _windows AS r
        LEFT JOIN sums AS s ON s.trace = r.trace AND s.rank = r.rank
        LEFT JOIN _rank_times AS t ON t.trace = r.trace AND t.rank = r.rank
    )

SELECT
    trace,
    avg(kernel_ns) / 1e9 AS total_kernel_time_s,
    sum(kernel_ns) / 1e9 AS total_kernel_time_all_ranks_s,
    avg(busy_ns) / 1e9 AS busy_kernel_time_s,
    avg(compute_ns) / 1e9 AS compute_kernel_time_s,
    avg(comm_ns) / 1e9 AS comm_kernel_time_s,
    TRY_CAST(sum(kernels) AS BIGINT) AS kernel_count,
    map(
        array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
        array_agg(kernel_ns / 1e9 ORDER BY rank)
    ) AS per_rank
FROM per_rank
GROUP BY trace
ORDER BY trace
