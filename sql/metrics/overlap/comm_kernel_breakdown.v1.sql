-- @metric   comm_kernel_breakdown
-- @version  1
-- @area     overlap
-- @summary  Durations of the communication events of all ranks, by kind of collective.
-- @grain    trace
-- @requires collectives
-- @reads    _windows _kernel_coverage
-- @value    total_communication_time_us
-- @alias    comm_kernel_breakdown_tpu comm_time_by_type kernel_duration
-- @null     no communication event has a duration
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   total_communication_time_us DOUBLE value us lower | Sum of the durations of all ranks:
--           the totals of the kinds add up to it. An asynchronous pair is one event from start to
--           done.
-- @column   by_type MAP value - | Of each kind: count, total_us, avg_us, min_us, max_us, union_us
--           (union per rank, mean over the ranks that have it), exposed_wait_us (of asynchronous
--           pairs what the device stood still; NULL without), share_ratio of the total.
-- @column   total_events BIGINT value calls | Events with a duration, all ranks.
-- @column   per_rank MAP value us | Sum of the durations of each rank that has a window; 0 without
--           such events.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @caveat   What overlaps counts twice in a sum of durations, and waiting for late ranks counts:
--           for the time in which a rank communicates see total_comm_time_s.
-- @source   metrics 2.C comm_time_by_type (defects D22, D25)
WITH
    events AS (
        SELECT trace, rank, device, collective, ts_ns, dur_ns, stall_ns
        FROM collectives
        WHERE dur_ns IS NOT NULL
    ),

    totals AS (
        SELECT trace, sum(dur_ns) / 1e3 AS total_us, count(*) AS total_events
        FROM events
        GROUP BY trace
    ),

    spans AS (
        SELECT
            trace, rank, device, collective,
            interval_union_ns(array_agg({start_ns: ts_ns, end_ns: ts_ns + dur_ns})) AS union_ns
        FROM events
        GROUP BY trace, rank, device, collective
    ),

    rank_unions AS (
        SELECT trace, rank, collective, CAST(sum(union_ns) AS DOUBLE) / 1e3 AS union_us
        FROM spans
        GROUP BY trace, rank, collective
    ),

    unions AS (
        SELECT trace, collective, avg(union_us ORDER BY rank) AS union_us
        FROM rank_unions
        GROUP BY trace, collective
    ),

    kinds AS (
        SELECT
            trace, collective, count(*) AS event_count, sum(dur_ns) / 1e3 AS total_us,
            avg(dur_ns) / 1e3 AS avg_us, min(dur_ns) / 1e3 AS min_us, max(dur_ns) / 1e3 AS max_us,
            sum(stall_ns) / 1e3 AS exposed_wait_us
        FROM events
        GROUP BY trace, collective
    ),

    kind_maps AS (
        SELECT
            k.trace,
            map(
                array_agg(k.collective ORDER BY k.collective),
                array_agg({
                    count: k.event_count, total_us: k.total_us, avg_us: k.avg_us, min_us: k.min_us,
                    max_us: k.max_us, union_us: u.union_us, exposed_wait_us: k.exposed_wait_us,
                    share_ratio: k.total_us / nullif(t.total_us, 0)
                } ORDER BY k.collective)
            ) AS by_type
        FROM kinds AS k
        INNER JOIN unions AS u ON u.trace = k.trace AND u.collective = k.collective
        INNER JOIN totals AS t ON t.trace = k.trace
        GROUP BY k.trace
    ),

    rank_sums AS (
        SELECT trace, rank, sum(dur_ns) / 1e3 AS total_us
        FROM events
        GROUP BY trace, rank
    ),

    rank_maps AS (
        SELECT
            w.trace,
            map(
                array_agg(CAST(w.rank AS VARCHAR) ORDER BY w.rank),
                array_agg(coalesce(s.total_us, 0) ORDER BY w.rank)
            ) AS per_rank
        FROM _windows AS w
        LEFT JOIN rank_sums AS s ON s.trace = w.trace AND s.rank = w.rank
        GROUP BY w.trace
    )

SELECT
    t.trace, t.total_us AS total_communication_time_us, k.by_type, t.total_events, r.per_rank
FROM totals AS t
INNER JOIN kind_maps AS k ON k.trace = t.trace
LEFT JOIN rank_maps AS r ON r.trace = t.trace
ORDER BY t.trace
