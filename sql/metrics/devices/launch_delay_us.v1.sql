-- @metric   launch_delay_us
-- @version  1
-- @area     devices
-- @summary  How long it takes from the launch call on the host to the start on the device, and
--           which kernels take less time than their launch.
-- @grain    trace
-- @profilers kineto nsys
-- @requires device_events launches
-- @reads    _first_launches _launch_counts _device_counts
-- @value    launch_delay_us
-- @coverage launch_known_ratio | the launch
-- @null     no device event has a launch in the trace
-- @check    (SELECT count(*) FROM _device_counts WHERE source <> 'xla') > 0
--           | XLA launches whole programs, so that its device events have no launches of their own
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   launch_delay_us DOUBLE value us lower | Start on the device - start of the call
--           (launch_delay_ns of launches), mean of a rank, mean over ranks.
-- @column   after_return_us DOUBLE value us | Start on the device - end of the call, likewise;
--           negative where the device begins before the call returns. NULL where no call has a
--           duration.
-- @column   p50_us DOUBLE value us | Median of the delays of all ranks, interpolated.
-- @column   p95_us DOUBLE value us | 95th percentile.
-- @column   p99_us DOUBLE value us | 99th percentile.
-- @column   max_us DOUBLE value us lower | Largest.
-- @column   min_us DOUBLE value us | Least; below 0 the clocks of host and device disagree.
-- @column   launches_count BIGINT value count | Calls that launched something.
-- @column   short_kernels_count BIGINT value count lower | Kernels (compute and comm) that take
--           less time than the call that launched them.
-- @column   short_kernels_pct DOUBLE value pct lower | Of the kernels whose call has a duration.
-- @column   launch_known_ratio DOUBLE value ratio | Share of the device events whose launch is in
--           the trace.
-- @column   by_class LIST value - | Of each class of device events: calls, mean, p50, p95, p99 and
--           max of the delay, mean duration of the call.
-- @column   by_rank LIST value - | Of each rank: calls, mean, p50, p95, p99 and max.
-- @caveat   Of a call that launches several events (a CUDA graph) only the first event has a delay.
--           A long delay is no cost while the device is busy: it is what waits in the queue; see
--           stream_queue_length and idle_causes.
-- @source   peers launch stats (HTA get_cuda_kernel_launch_stats: short kernels take less time than
--           their call; its launch_delay adds the duration of the call, this one does not)
WITH
    rank_rows AS (
        SELECT
            trace, rank, count(*) AS calls,
            avg(launch_delay_ns) / 1e3 AS mean_us,
            avg(launch_delay_ns - call_ns) / 1e3 AS after_return_us,
            quantile_cont(launch_delay_ns, 0.5) / 1e3 AS p50_us,
            quantile_cont(launch_delay_ns, 0.95) / 1e3 AS p95_us,
            quantile_cont(launch_delay_ns, 0.99) / 1e3 AS p99_us,
            max(launch_delay_ns) / 1e3 AS max_us
        FROM _first_launches
        GROUP BY trace, rank
    ),

    rank_lists AS (
        SELECT
            trace,
            avg(mean_us ORDER BY rank) AS launch_delay_us,
            avg(after_return_us ORDER BY rank) AS after_return_us,
            array_agg({
                rank: rank, calls: calls, mean_us: mean_us, p50_us: p50_us, p95_us: p95_us,
                p99_us: p99_us, max_us: max_us
            } ORDER BY rank) AS by_rank
        FROM rank_rows
        GROUP BY trace
    ),

    class_rows AS (
        SELECT
            trace, class, count(*) AS calls,
            avg(launch_delay_ns) / 1e3 AS mean_us,
            quantile_cont(launch_delay_ns, 0.5) / 1e3 AS p50_us,
            quantile_cont(launch_delay_ns, 0.95) / 1e3 AS p95_us,
            quantile_cont(launch_delay_ns, 0.99) / 1e3 AS p99_us,
            max(launch_delay_ns) / 1e3 AS max_us,
            avg(call_ns) / 1e3 AS call_us
        FROM _first_launches
        GROUP BY trace, class
    ),

    class_lists AS (
        SELECT
            trace,
            array_agg({
                class: class, calls: calls, mean_us: mean_us, p50_us: p50_us, p95_us: p95_us,
                p99_us: p99_us, max_us: max_us, call_us: call_us
            } ORDER BY calls DESC, class) AS by_class
        FROM class_rows
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace,
            quantile_cont(launch_delay_ns, 0.5) / 1e3 AS p50_us,
            quantile_cont(launch_delay_ns, 0.95) / 1e3 AS p95_us,
            quantile_cont(launch_delay_ns, 0.99) / 1e3 AS p99_us,
            max(launch_delay_ns) / 1e3 AS max_us,
            min(launch_delay_ns) / 1e3 AS min_us,
            count(*) AS launches_count
        FROM _first_launches
        GROUP BY trace
    ),

    counts AS (
        SELECT
            trace,
            sum(short_kernels) AS short_kernels_count,
            sum(timed_kernels) AS timed_kernels,
            sum(launched_events) AS launched,
            sum(launchable_events) AS events
        FROM _launch_counts
        GROUP BY trace
    )

SELECT
    t.trace, r.launch_delay_us, r.after_return_us, t.p50_us, t.p95_us, t.p99_us, t.max_us,
    t.min_us, t.launches_count, CAST(s.short_kernels_count AS BIGINT) AS short_kernels_count,
    100.0 * s.short_kernels_count / nullif(s.timed_kernels, 0) AS short_kernels_pct,
    CAST(s.launched AS DOUBLE) / nullif(s.events, 0) AS launch_known_ratio,
    c.by_class, r.by_rank
FROM totals AS t
INNER JOIN rank_lists AS r ON r.trace = t.trace
INNER JOIN class_lists AS c ON c.trace = t.trace
INNER JOIN counts AS s ON s.trace = t.trace
ORDER BY t.trace
