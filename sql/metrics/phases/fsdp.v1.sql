-- @metric   fsdp
-- @version  1
-- @area     phases
-- @summary  What fully sharded data parallelism costs: its communication and copies that no other
--           compute hides, of the step; by operation and layer.
-- @grain    trace
-- @profilers kineto nsys
-- @nvtx     partial
-- @requires fsdp_ranges
-- @reads    fsdp_steps steps _windows _launch_coverage
-- @value    fsdp_overhead_pct
-- @coverage launch_coverage_ratio | launches of device events are
-- @null     no range of FSDP launched anything that the trace holds
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   fsdp_overhead_pct DOUBLE value pct lower | Communication and copies of FSDP that no
--           other compute hides, of the steps (of the window without steps); mean over ranks.
-- @column   fsdp_overhead_ms DOUBLE value ms lower | The same in a step; mean over steps, then over
--           ranks; so are the times below.
-- @column   fsdp_comm_time_ms DOUBLE value ms lower | Union of the communication that ranges of
--           FSDP launched.
-- @column   fsdp_copy_time_ms DOUBLE value ms lower | Union of the other work that they launched:
--           copies in and out.
-- @column   exposed_comm_ms DOUBLE value ms lower | Communication of FSDP without other compute
--           beside it.
-- @column   all_gather_time_ms DOUBLE value ms lower | Union of its all_gather.
-- @column   reduce_scatter_time_ms DOUBLE value ms lower | Union of its reduce_scatter and
--           all_reduce.
-- @column   fsdp_host_time_ms DOUBLE value ms | Time on the host inside ranges of FSDP, each
--           instant once.
-- @column   fsdp_host_pct DOUBLE value pct | That time, of the steps.
-- @column   operation_breakdown LIST value - | Each operation: ranges in a step, own time on the
--           host, time of what it launched (device, communication, copies; summed over layers),
--           least and largest over ranks, share of the host time of FSDP; a rank without it has 0.
-- @column   layer_breakdown LIST value - | Each layer: ranges, host and device time in a step,
--           summed over its operations, mean over the ranks that have it; NULL is the root, or what
--           names no module (FSDP1).
-- @column   num_layers BIGINT value - | Layers that the ranges name.
-- @column   per_rank LIST value - | The times of each rank.
-- @column   num_ranks BIGINT value count | Ranks with ranges of FSDP.
-- @column   method VARCHAR value - | device; or host where the ranks have no device (gloo): then
--           communication is that of the host, and nothing hides it.
-- @column   launch_coverage_ratio DOUBLE value ratio | Share of the device events whose launch is
--           known; NULL without devices.
-- @caveat   Work is of the range of FSDP that launched it. Ranges of FSDP1 name no layer; copies of
--           versions without the range all_gather_copy_out are of the range around them.
-- @source   metrics 2.H fsdp_overhead_pct (defect D59: device time by launch, ranges inside ranges
--           count once)
WITH
    step_times AS (
        SELECT trace, rank, count(*) AS step_count, CAST(sum(dur_ns) AS DOUBLE) AS step_ns
        FROM steps
        GROUP BY trace, rank
    ),

    -- Without steps the window is one.
    lengths AS (
        SELECT
            w.trace, w.rank,
            coalesce(s.step_count, 1) AS step_count,
            coalesce(s.step_ns, w.end_ns - w.start_ns) AS length_ns,
            w.basis, s.rank IS NOT NULL AS has_steps
        FROM _windows AS w
        LEFT JOIN step_times AS s ON s.trace = w.trace AND s.rank = w.rank
    ),

    -- What no step launched is of none.
    ranges AS (
        SELECT
            f.trace, f.rank, f.operation, f.layer, f.ranges, f.host_ns, f.device_ns, f.comm_ns, f.copy_ns,
            l.step_count, l.length_ns, l.basis
        FROM fsdp_ranges AS f
        INNER JOIN lengths AS l ON l.trace = f.trace AND l.rank = f.rank
        WHERE f.step IS NOT NULL OR NOT l.has_steps
    ),

    host AS (
        SELECT
            trace, rank, max(step_count) AS step_count, max(length_ns) AS length_ns, max(basis) AS basis,
            sum(host_ns) AS host_ns
        FROM ranges
        GROUP BY trace, rank
    ),

    device AS (
        SELECT
            f.trace, f.rank,
            sum(f.overhead_ns) AS overhead_ns, sum(f.comm_ns) AS comm_ns, sum(f.copy_ns) AS copy_ns,
            sum(f.exposed_comm_ns) AS exposed_ns, sum(f.gather_ns) AS gather_ns,
            sum(f.reduce_ns) AS reduce_ns
        FROM fsdp_steps AS f
        INNER JOIN lengths AS l ON l.trace = f.trace AND l.rank = f.rank
        WHERE f.step IS NOT NULL OR NOT l.has_steps
        GROUP BY f.trace, f.rank
    ),

    per_rank AS (
        SELECT
            h.trace, h.rank, h.basis,
            100.0 * d.overhead_ns / nullif(h.length_ns, 0) AS overhead_pct,
            d.overhead_ns / h.step_count / 1e6 AS overhead_ms,
            d.comm_ns / h.step_count / 1e6 AS comm_ms,
            d.copy_ns / h.step_count / 1e6 AS copy_ms,
            d.exposed_ns / h.step_count / 1e6 AS exposed_ms,
            d.gather_ns / h.step_count / 1e6 AS gather_ms,
            d.reduce_ns / h.step_count / 1e6 AS reduce_ms,
            h.host_ns / h.step_count / 1e6 AS host_ms,
            100.0 * h.host_ns / nullif(h.length_ns, 0) AS host_pct
        FROM host AS h
        LEFT JOIN device AS d ON d.trace = h.trace AND d.rank = h.rank
    ),

    totals AS (
        SELECT
            trace,
            avg(overhead_pct ORDER BY rank) AS fsdp_overhead_pct,
            avg(overhead_ms ORDER BY rank) AS fsdp_overhead_ms,
            avg(comm_ms ORDER BY rank) AS fsdp_comm_time_ms,
            avg(copy_ms ORDER BY rank) AS fsdp_copy_time_ms,
            avg(exposed_ms ORDER BY rank) AS exposed_comm_ms,
            avg(gather_ms ORDER BY rank) AS all_gather_time_ms,
            avg(reduce_ms ORDER BY rank) AS reduce_scatter_time_ms,
            avg(host_ms ORDER BY rank) AS fsdp_host_time_ms,
            avg(host_pct ORDER BY rank) AS fsdp_host_pct,
            array_agg({
                rank: rank, fsdp_overhead_pct: overhead_pct, fsdp_overhead_ms: overhead_ms,
                fsdp_comm_time_ms: comm_ms, fsdp_copy_time_ms: copy_ms, exposed_comm_ms: exposed_ms,
                all_gather_time_ms: gather_ms, reduce_scatter_time_ms: reduce_ms,
                fsdp_host_time_ms: host_ms, fsdp_host_pct: host_pct
            } ORDER BY rank) AS per_rank,
            count(*) AS num_ranks,
            min(basis) AS basis
        FROM per_rank
        GROUP BY trace
    ),

    operation_ranks AS (
        SELECT
            trace, rank, operation,
            CAST(sum(ranges) AS DOUBLE) / max(step_count) AS ranges,
            sum(host_ns) / max(step_count) / 1e6 AS host_ms,
            sum(device_ns) / max(step_count) / 1e6 AS device_ms,
            sum(comm_ns) / max(step_count) / 1e6 AS comm_ms,
            sum(copy_ns) / max(step_count) / 1e6 AS copy_ms
        FROM ranges
        GROUP BY trace, rank, operation
    ),

    -- A rank without an operation has spent no time in it.
    operations AS (
        SELECT
            o.trace, o.operation,
            sum(o.ranges ORDER BY o.rank) / max(t.num_ranks) AS ranges,
            sum(o.host_ms ORDER BY o.rank) / max(t.num_ranks) AS host_ms,
            CASE WHEN count(*) < max(t.num_ranks) THEN 0 ELSE min(o.host_ms) END AS min_host_ms,
            max(o.host_ms) AS max_host_ms,
            sum(o.device_ms ORDER BY o.rank) / max(t.num_ranks) AS device_ms,
            sum(o.comm_ms ORDER BY o.rank) / max(t.num_ranks) AS comm_ms,
            sum(o.copy_ms ORDER BY o.rank) / max(t.num_ranks) AS copy_ms
        FROM operation_ranks AS o
        INNER JOIN totals AS t ON t.trace = o.trace
        GROUP BY o.trace, o.operation
    ),

    operation_lists AS (
        SELECT
            o.trace,
            array_agg({
                operation: o.operation, ranges: o.ranges, host_ms: o.host_ms, min_host_ms: o.min_host_ms,
                max_host_ms: o.max_host_ms, device_ms: o.device_ms, comm_ms: o.comm_ms, copy_ms: o.copy_ms,
                pct_of_fsdp_host: 100.0 * o.host_ms / nullif(t.fsdp_host_time_ms, 0)
            } ORDER BY o.operation) AS operation_breakdown
        FROM operations AS o
        INNER JOIN totals AS t ON t.trace = o.trace
        GROUP BY o.trace
    ),

    layer_ranks AS (
        SELECT
            trace, rank, layer,
            CAST(sum(ranges) AS DOUBLE) / max(step_count) AS ranges,
            sum(host_ns) / max(step_count) / 1e6 AS host_ms,
            sum(device_ns) / max(step_count) / 1e6 AS device_ms,
            sum(comm_ns) / max(step_count) / 1e6 AS comm_ms
        FROM ranges
        GROUP BY trace, rank, layer
    ),

    layers AS (
        SELECT
            trace, layer,
            avg(ranges ORDER BY rank) AS ranges,
            avg(host_ms ORDER BY rank) AS host_ms,
            avg(device_ms ORDER BY rank) AS device_ms,
            avg(comm_ms ORDER BY rank) AS comm_ms
        FROM layer_ranks
        GROUP BY trace, layer
    ),

    layer_lists AS (
        SELECT
            trace,
            count(layer) AS num_layers,
            array_agg({
                layer: layer, ranges: ranges, host_ms: host_ms, device_ms: device_ms, comm_ms: comm_ms
            } ORDER BY length(coalesce(layer, '')), coalesce(layer, '')) AS layer_breakdown
        FROM layers
        GROUP BY trace
    )

SELECT
    t.trace, t.fsdp_overhead_pct, t.fsdp_overhead_ms, t.fsdp_comm_time_ms, t.fsdp_copy_time_ms,
    t.exposed_comm_ms, t.all_gather_time_ms, t.reduce_scatter_time_ms, t.fsdp_host_time_ms,
    t.fsdp_host_pct, o.operation_breakdown, l.layer_breakdown, l.num_layers, t.per_rank,
    t.num_ranks, t.basis AS method, c.launch_coverage_ratio
FROM totals AS t
INNER JOIN operation_lists AS o ON o.trace = t.trace
INNER JOIN layer_lists AS l ON l.trace = t.trace
LEFT JOIN _launch_coverage AS c ON c.trace = t.trace
ORDER BY t.trace
