-- @metric   stream_queue_length
-- @version  1
-- @area     devices
-- @summary  How many operations wait on a stream: launched, and not yet begun on the device.
-- @grain    trace
-- @profilers kineto nsys
-- @requires device_events launches
-- @reads    _stream_queues _launch_counts _device_counts
-- @value    stream_queue_length
-- @coverage launch_known_ratio | the launch
-- @null     no stream has a launched operation, or none waits for any time
-- @check    (SELECT count(*) FROM _device_counts WHERE source <> 'xla') > 0
--           | XLA launches whole programs, so that its device events have no launches of their own
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   stream_queue_length DOUBLE value count | Length of the queue of a stream, mean over
--           time from its first launch to its last start; mean over the streams of a rank weighted
--           by their operations, then over ranks.
-- @column   p95_length BIGINT value - | Least length that no more than 5 % of the time is exceeded,
--           largest over the streams.
-- @column   max_length BIGINT value - | Largest length.
-- @column   empty_pct DOUBLE value pct lower | Share of that time in which the queue is empty,
--           averaged likewise.
-- @column   launch_known_ratio DOUBLE value ratio | Share of the device events whose launch is in
--           the trace.
-- @column   by_stream LIST value - | Of each rank, device and stream: operations, time from its
--           first launch to its last start, mean, p95 and max of the length, share of the time with
--           an empty queue.
-- @warn     (SELECT count(*) FROM launches WHERE launch_delay_ns < 0) > 0
--           | some operations begin before their launch (clocks of host and device differ) and
--           count as launched when they begin: queues are longer than they look
-- @caveat   An empty queue is no harm while the device works at the last operation; with an idle
--           device it means that the host is too slow: see idle_causes. Operations of one CUDA
--           graph on a stream are one operation.
-- @source   peers queue length (HTA get_queue_length_time_series: one more when a call enqueues,
--           one less when the device begins); HTA averages over the changes of the length, this
--           over time
WITH
    rank_means AS (
        SELECT
            trace, rank,
            sum(mean_length * operations ORDER BY device, stream) / sum(operations) AS mean_length,
            sum(empty_pct * operations ORDER BY device, stream) / sum(operations) AS empty_pct
        FROM _stream_queues
        GROUP BY trace, rank
    ),

    trace_means AS (
        SELECT
            trace,
            avg(mean_length ORDER BY rank) AS mean_length,
            avg(empty_pct ORDER BY rank) AS empty_pct
        FROM rank_means
        GROUP BY trace
    ),

    stream_lists AS (
        SELECT
            trace,
            max(p95_length) AS p95_length,
            max(max_length) AS max_length,
            array_agg({
                rank: rank, device: device, stream: stream, operations: operations,
                time_ms: span_ns / 1e6, mean_length: mean_length, p95_length: p95_length,
                max_length: max_length, empty_pct: empty_pct
            } ORDER BY rank, device, stream) AS by_stream
        FROM _stream_queues
        GROUP BY trace
    ),

    known AS (
        SELECT
            trace,
            CAST(sum(launched_events) AS DOUBLE) / nullif(sum(launchable_events), 0)
                AS launch_known_ratio
        FROM _launch_counts
        GROUP BY trace
    )

SELECT
    m.trace, m.mean_length AS stream_queue_length, s.p95_length, s.max_length, m.empty_pct,
    k.launch_known_ratio, s.by_stream
FROM trace_means AS m
INNER JOIN stream_lists AS s ON s.trace = m.trace
INNER JOIN known AS k ON k.trace = m.trace
ORDER BY m.trace
