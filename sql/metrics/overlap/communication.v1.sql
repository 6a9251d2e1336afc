-- @metric   communication
-- @version  1
-- @area     overlap
-- @summary  Communication of a rank: time, calls, volume and efficiency, by kind of collective.
-- @grain    trace
-- @reads    _comm_ranks _rank_times collectives device_events _kernel_coverage _class_reasons
-- @value    communication_time_ms
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'communication')
--           | the trace has neither device events nor gloo calls, the names of some kernels are
--           lost, or communication is in CUDA graphs that were traced as a whole
-- @coverage size_coverage_ratio | message sizes are
-- @null     no rank has an event with a duration
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   communication_time_ms DOUBLE value ms lower | Union of the communication of a rank,
--           whole trace; mean over the ranks that have a window: one that does not communicate
--           counts as 0, here and in calls and bytes.
-- @column   communication_time_per_step_ms DOUBLE value ms lower | Union of what a step launched;
--           mean over steps, then over the ranks with steps; NULL without steps, and where no
--           launch is known.
-- @column   communication_pct DOUBLE value pct lower | Communication, of the window; mean over
--           ranks.
-- @column   calls DOUBLE value calls | Calls of a rank, whole trace; mean over ranks.
-- @column   calls_per_step DOUBLE value calls | Calls that a step launched; mean over steps, then
--           over the ranks with steps; NULL without steps, and where no launch is known.
-- @column   calls_all_ranks BIGINT value calls | Calls of all ranks.
-- @column   volume_bytes DOUBLE value bytes | Message sizes of a rank, whole trace, summed; mean
--           over the same ranks; NULL where no size is known.
-- @column   wire_bytes DOUBLE value bytes | What a rank must send at least, likewise; NULL where no
--           size or group is known.
-- @column   efficiency_gb_per_s DOUBLE value gb_per_s higher | Wire bytes over the union of the
--           calls whose bytes are known; mean over the ranks that have such calls.
-- @column   size_coverage_ratio DOUBLE value ratio | Share of the calls whose size is known;
--           barriers have none and do not count.
-- @column   per_operation LIST value - | Each kind: calls of all ranks, union (mean, least, largest
--           over ranks), duration of a call (mean, median, 95th percentile, least, largest), bytes
--           of all ranks.
-- @column   per_rank LIST value - | Time, share, calls, bytes and efficiency of each rank.
-- @column   num_ranks BIGINT value count | Ranks that have a window.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @source   metrics 2.C total_comm_time_s, comm_time_by_type, comm_volume_bytes,
--           comm_efficiency_gbps (defects D22, D23, D28, D29: kernels and not their wrappers,
--           unions, sizes by the event's own group)
WITH
    events AS (
        SELECT
            trace, rank, device, step, collective, ts_ns, ts_ns + dur_ns AS end_ns, dur_ns,
            message_bytes, wire_bytes
        FROM collectives
    ),

    counts AS (
        SELECT
            trace, rank, count(*) AS calls,
            count(*) FILTER (WHERE collective <> 'barrier') AS sizable,
            count(message_bytes) FILTER (WHERE collective <> 'barrier') AS sized,
            sum(message_bytes) AS message_bytes,
            sum(wire_bytes) AS wire_bytes
        FROM events
        GROUP BY trace, rank
    ),

    known_spans AS (
        SELECT
            trace, rank, device, sum(wire_bytes) AS known_bytes,
            interval_union_ns(array_agg({start_ns: ts_ns, end_ns: end_ns})) AS known_ns
        FROM events
        WHERE wire_bytes IS NOT NULL AND dur_ns IS NOT NULL
        GROUP BY trace, rank, device
    ),

    known AS (
        SELECT
            trace, rank, CAST(sum(known_bytes) AS DOUBLE) AS known_bytes,
            TRY_CAST(sum(known_ns) AS BIGINT) AS known_ns
        FROM known_spans
        GROUP BY trace, rank
    ),

    step_spans AS (
        SELECT
            trace, rank, step, device, count(*) AS calls,
            interval_union_ns(array_agg({start_ns: ts_ns, end_ns: end_ns}) FILTER (WHERE dur_ns IS NOT NULL))
                AS union_ns
        FROM events
        WHERE step IS NOT NULL
        GROUP BY trace, rank, step, device
    ),

    step_sums AS (
        SELECT trace, rank, sum(calls) AS calls, sum(union_ns) AS union_ns
        FROM step_spans
        GROUP BY trace, rank
    ),

    per_rank AS (
        SELECT
            r.trace, r.rank,
            coalesce(t.comm_ns, 0) / 1e6 AS time_ms,
            100.0 * t.comm_ns / nullif(t.window_ns, 0) AS time_pct,
            coalesce(c.calls, 0) AS calls,
            coalesce(c.sizable, 0) AS sizable,
            coalesce(c.sized, 0) AS sized,
            -- Without calls that have a size nothing is sent.
            CASE WHEN coalesce(c.sizable, 0) = 0 THEN 0 ELSE c.message_bytes END AS message_bytes,
            CASE WHEN coalesce(c.sizable, 0) = 0 THEN 0 ELSE c.wire_bytes END AS wire_bytes,
            -- bytes/ns = GB/s
            k.known_bytes / nullif(k.known_ns, 0) AS efficiency_gb_per_s,
            CASE WHEN r.has_steps THEN coalesce(s.union_ns, 0) / r.step_count / 1e6 END AS step_ms,
            CASE WHEN r.has_steps THEN coalesce(s.calls, 0) / r.step_count END AS step_calls
        FROM _comm_ranks AS r
        LEFT JOIN _rank_times AS t ON t.trace = r.trace AND t.rank = r.rank
        LEFT JOIN counts AS c ON c.trace = r.trace AND c.rank = r.rank
        LEFT JOIN known AS k ON k.trace = r.trace AND k.rank = r.rank
        LEFT JOIN step_sums AS s ON s.trace = r.trace AND s.rank = r.rank
    ),

    totals AS (
        SELECT
            trace,
            avg(time_ms ORDER BY rank) AS communication_time_ms,
            avg(step_ms ORDER BY rank) AS communication_time_per_step_ms,
            avg(time_pct ORDER BY rank) AS communication_pct,
            avg(calls ORDER BY rank) AS calls,
            avg(step_calls ORDER BY rank) AS calls_per_step,
            TRY_CAST(sum(calls) AS BIGINT) AS calls_all_ranks,
            CASE WHEN sum(sized) > 0 THEN avg(message_bytes ORDER BY rank) END AS volume_bytes,
            CASE WHEN sum(sized) > 0 THEN avg(wire_bytes ORDER BY rank) END AS wire_bytes,
            avg(efficiency_gb_per_s ORDER BY rank) AS efficiency_gb_per_s,
            CAST(sum(sized) AS DOUBLE) / nullif(sum(sizable), 0) AS size_coverage_ratio,
            array_agg({
                rank: rank, communication_time_ms: time_ms, communication_pct: time_pct, calls: calls,
                calls_per_step: step_calls, communication_time_per_step_ms: step_ms,
                volume_bytes: message_bytes, wire_bytes: wire_bytes,
                efficiency_gb_per_s: efficiency_gb_per_s
            } ORDER BY rank) AS per_rank,
            count(*) AS num_ranks
        FROM per_rank
        GROUP BY trace
    ),

    kind_spans AS (
        SELECT
            trace, rank, device, collective,
            interval_union_ns(array_agg({start_ns: ts_ns, end_ns: end_ns}) FILTER (WHERE dur_ns IS NOT NULL))
                AS union_ns
        FROM events
        GROUP BY trace, rank, device, collective
    ),

    kind_unions AS (
        SELECT trace, rank, collective, coalesce(sum(union_ns), 0) / 1e6 AS union_ms
        FROM kind_spans
        GROUP BY trace, rank, collective
    ),

    -- A rank without calls of a kind has spent no time in it.
    kind_ranks AS (
        SELECT
            u.trace, u.collective, sum(u.union_ms ORDER BY u.rank) / max(t.num_ranks) AS mean_ms,
            CASE WHEN count(*) < max(t.num_ranks) THEN 0 ELSE min(u.union_ms) END AS min_ms,
            max(u.union_ms) AS max_ms
        FROM kind_unions AS u
        INNER JOIN totals AS t ON t.trace = u.trace
        GROUP BY u.trace, u.collective
    ),

    kinds AS (
        SELECT
            trace, collective, count(*) AS calls,
            avg(dur_ns) / 1e3 AS mean_us,
            quantile_cont(dur_ns, 0.5) / 1e3 AS median_us,
            quantile_cont(dur_ns, 0.95) / 1e3 AS p95_us,
            min(dur_ns) / 1e3 AS min_us,
            max(dur_ns) / 1e3 AS max_us,
            TRY_CAST(sum(message_bytes) AS BIGINT) AS message_bytes,
            TRY_CAST(sum(wire_bytes) AS BIGINT) AS wire_bytes
        FROM events
        GROUP BY trace, collective
    ),

    kind_lists AS (
        SELECT
            k.trace,
            array_agg({
                collective: k.collective, calls: k.calls, time_ms: r.mean_ms, min_rank_time_ms: r.min_ms,
                max_rank_time_ms: r.max_ms, mean_us: k.mean_us, median_us: k.median_us, p95_us: k.p95_us,
                min_us: k.min_us, max_us: k.max_us, message_bytes: k.message_bytes,
                wire_bytes: k.wire_bytes
            } ORDER BY k.collective) AS per_operation
        FROM kinds AS k
        INNER JOIN kind_ranks AS r ON r.trace = k.trace AND r.collective = k.collective
        GROUP BY k.trace
    )

SELECT
    t.trace, t.communication_time_ms, t.communication_time_per_step_ms, t.communication_pct,
    t.calls, t.calls_per_step, t.calls_all_ranks, t.volume_bytes, t.wire_bytes,
    t.efficiency_gb_per_s, t.size_coverage_ratio, coalesce(k.per_operation, []) AS per_operation,
    t.per_rank, t.num_ranks
FROM totals AS t
LEFT JOIN kind_lists AS k ON k.trace = t.trace
ORDER BY t.trace
