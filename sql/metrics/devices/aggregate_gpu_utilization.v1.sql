-- @metric   aggregate_gpu_utilization
-- @version  1
-- @area     devices
-- @summary  Share of the time from its first to its last kernel in which a device runs kernels,
--           mean over ranks.
-- @grain    trace
-- @requires device_events
-- @reads    _rank_times _device_times _device_counts
-- @value    kernel_utilization_pct
-- @check    (SELECT count(*) FROM _device_counts WHERE class IN ('compute', 'comm')) > 0
--           | the trace has no kernels
-- @check    (SELECT count(*) FROM _device_counts WHERE class = 'graph') = 0
--           | whole CUDA graphs were traced, so that the kernels inside them are not in the trace
-- @null     no kernel has a duration
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   kernel_utilization_pct DOUBLE value pct higher | 100 x |kernels| / (first start to last
--           end of the kernels), per device, summed over the devices of a rank; mean over ranks.
-- @column   of_window_pct DOUBLE value pct higher | 100 x |kernels| / window of all device events,
--           mean over ranks (kernel_pct of gpu_utilization).
-- @column   kernel_time_ms DOUBLE value ms | |kernels|, mean over ranks.
-- @column   kernel_span_ms DOUBLE value ms | First start to last end of the kernels, summed over
--           the devices of a rank, mean over ranks.
-- @column   per_rank MAP value pct | Share of each rank.
-- @caveat   The window of a rank with several devices is that of each device, added up.
-- @caveat   Copies and sets are no kernels; gpu_utilization counts them. A kernel of communication
--           that waits counts as use.
-- @source   metrics 2.F gpu_utilization_pct (aggregate_gpu_utilization of main.py; defect D45: per
--           device, all ranks)
WITH
    spans AS (
        SELECT
            trace, rank, sum(kernel_ns) AS kernel_ns, sum(kernel_end_ns - kernel_start_ns) AS span_ns
        FROM _device_times
        GROUP BY trace, rank
    ),

    -- A rank without kernels runs none of them in its window.
    per_rank AS (
        SELECT
            t.trace, t.rank, t.kernel_ns, s.span_ns,
            100.0 * s.kernel_ns / s.span_ns AS share_pct,
            100.0 * t.kernel_ns / nullif(t.window_ns, 0) AS window_pct
        FROM _rank_times AS t
        LEFT JOIN spans AS s ON s.trace = t.trace AND s.rank = t.rank
        WHERE t.basis = 'device'
    )

SELECT
    trace,
    avg(share_pct ORDER BY rank) AS kernel_utilization_pct,
    avg(window_pct ORDER BY rank) AS of_window_pct,
    avg(kernel_ns) / 1e6 AS kernel_time_ms,
    avg(span_ns) / 1e6 AS kernel_span_ms,
    map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(share_pct ORDER BY rank))
        AS per_rank
FROM per_rank
GROUP BY trace
ORDER BY trace
