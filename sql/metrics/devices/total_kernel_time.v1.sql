-- @metric   total_kernel_time
-- @version  1
-- @area     devices
-- @summary  Durations of the kernels of all ranks added up, communication included.
-- @grain    trace
-- @requires kernel_times
-- @reads    _device_counts
-- @value    all_ranks_s
-- @check    (SELECT count(*) FROM _device_counts WHERE class = 'graph') = 0
--           | whole CUDA graphs were traced, so that the kernels inside them are not in the trace
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   all_ranks_s DOUBLE value s | Sum of the durations over all ranks:
--           total_kernel_time_all_ranks_s of total_kernel_time_s.
-- @column   mean_s DOUBLE value s | The sum of a rank, mean over the ranks with kernels.
-- @column   num_ranks BIGINT value count | Ranks with kernels.
-- @column   kernel_count BIGINT value count | Kernels of all ranks.
-- @caveat   It grows with the number of ranks: total_kernel_time_s is the mean over ranks. The tool
--           that set the name reads 16 ranks at most, and says milliseconds where it means seconds.
-- @source   metrics 2.A total_kernel_time_s (defect D07)
WITH
    per_rank AS (
        SELECT trace, rank, sum(dur_ns) AS kernel_ns, sum(events) AS kernels
        FROM kernel_times
        WHERE rank IS NOT NULL
        GROUP BY trace, rank
    )

SELECT
    trace,
    sum(kernel_ns) / 1e9 AS all_ranks_s,
    avg(kernel_ns) / 1e9 AS mean_s,
    count(*) AS num_ranks,
    TRY_CAST(sum(kernels) AS BIGINT) AS kernel_count
FROM per_rank
GROUP BY trace
ORDER BY trace
