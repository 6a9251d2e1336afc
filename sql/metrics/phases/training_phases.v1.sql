-- @metric   training_phases
-- @version  1
-- @area     phases
-- @summary  Forward, backward and optimizer in each step: shares of the device time of what they
--           launched (without devices, of their windows on the host), and both times.
-- @grain    trace
-- @profilers kineto nsys
-- @nvtx     partial
-- @reads    phase_times layer_times fsdp_ranges steps _launch_coverage
-- @value    forward_pct
-- @coverage launch_coverage_ratio | launches of device events are
-- @check    (SELECT count(*) FROM phase_times WHERE phase IN ('forward', 'backward', 'optimizer'))
--           > 0
--           | the trace has no forward, no backward and no optimizer: it does not train, or nothing
--           on its host says so
-- @null     nothing says forward, and nothing runs before a backward
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   forward_pct DOUBLE value pct | Share of the forward: of the device time of the steps
--           (forward_device_pct), or where no device work is known of the steps on the host
--           (forward_host_pct); method says which. Mean over ranks; the four are 100 together.
-- @column   backward_pct DOUBLE value pct | Share of the backward likewise.
-- @column   optimizer_pct DOUBLE value pct | Share of the optimizer likewise; NULL where nothing
--           says it (an optimizer may be fused into the backward).
-- @column   rest_pct DOUBLE value pct | What is left: data loading, zero_grad, and what lies
--           between.
-- @column   forward_time_ms DOUBLE value ms lower | Forward on the host in a step; mean over steps,
--           then over ranks; so are the times below.
-- @column   backward_time_ms DOUBLE value ms lower | Backward on the host.
-- @column   optimizer_time_ms DOUBLE value ms lower | Optimizer.step on the host.
-- @column   rest_time_ms DOUBLE value ms | The rest of the step on the host.
-- @column   zero_grad_time_ms DOUBLE value ms | Part of the rest: Optimizer.zero_grad.
-- @column   data_loading_time_ms DOUBLE value ms | Part of the rest: the iterator of a DataLoader.
-- @column   step_time_ms DOUBLE value ms lower | The step: the sum of the four.
-- @column   forward_device_ms DOUBLE value ms lower | Device time of what the forward launched; an
--           instant in which two phases run is of the earlier one.
-- @column   backward_device_ms DOUBLE value ms lower | Device time of what the backward launched.
-- @column   optimizer_device_ms DOUBLE value ms lower | Device time of what the optimizer launched.
-- @column   rest_device_ms DOUBLE value ms | Device time of what else the step launched.
-- @column   step_device_ms DOUBLE value ms lower | Device time of what the step launched: the sum
--           of the four.
-- @column   forward_device_pct DOUBLE value pct | Forward, of the device time of the steps.
-- @column   backward_device_pct DOUBLE value pct | Backward, of the device time of the steps.
-- @column   optimizer_device_pct DOUBLE value pct | Optimizer, of the device time of the steps.
-- @column   rest_device_pct DOUBLE value pct | The rest, of the device time of the steps.
-- @column   forward_host_pct DOUBLE value pct | Forward on the host, of the steps.
-- @column   backward_host_pct DOUBLE value pct | Backward on the host, of the steps.
-- @column   optimizer_host_pct DOUBLE value pct | Optimizer.step on the host, of the steps.
-- @column   rest_host_pct DOUBLE value pct | What is left of the steps on the host.
-- @column   phases LIST value - | Each phase (rest: without zero_grad and data loading) with its
--           windows and device events in a step, device time, union, communication, compute and sum
--           of durations of what it launched.
-- @column   layer_breakdown_ms LIST value - | Each layer that annotations name (those of FSDP2, or
--           your own): time inside these ranges on the host and device time of what they launched,
--           in forward and backward of a step, mean over ranks; NULL without such names.
-- @column   fsdp_time_ms DOUBLE value ms | Time on the host inside ranges of FSDP in a step; NULL
--           without.
-- @column   per_rank LIST value - | The times of each rank.
-- @column   method VARCHAR value - | What the shares are of: device_steps or host_steps;
--           device_window or host_window where the trace has no steps: then one step is the whole
--           span of phases.
-- @column   launch_coverage_ratio DOUBLE value ratio | Share of the device events whose launch is
--           known; NULL without devices.
-- @caveat   Phases are told by ranges that PyTorch records: Optimizer.step, the operators of
--           autograd, the iterator of a DataLoader. Forward is what ranges say it is (DDP, FSDP1,
--           torchrec; they suffice, also without a backward), else what the main thread runs before
--           a backward of the same step. The gradient that autograd starts from (ones_like) is of
--           the backward.
-- @caveat   The host runs ahead of its devices and waits for them: a phase that is short on the
--           host may be long on the devices, and the reverse.
-- @caveat   Device work that was launched before the trace began is of no phase.
-- @source   metrics 2.H forward_time (defect D58: no nested operators, no names in place of phases,
--           device time by launch)
WITH
    ranks AS (
        SELECT
            trace, rank,
            -- The rest of a step is one row of each.
            count(*) FILTER (WHERE phase = 'rest' AND host_ns IS NOT NULL) AS step_count,
            sum(host_ns) AS step_ns,
            sum(host_ns) FILTER (WHERE phase = 'forward') AS forward_ns,
            sum(host_ns) FILTER (WHERE phase = 'backward') AS backward_ns,
            sum(host_ns) FILTER (WHERE phase = 'optimizer') AS optimizer_ns,
            sum(host_ns) FILTER (WHERE phase IN ('rest', 'zero_grad', 'data_loading')) AS rest_ns,
            sum(host_ns) FILTER (WHERE phase = 'zero_grad') AS zero_grad_ns,
            sum(host_ns) FILTER (WHERE phase = 'data_loading') AS data_loading_ns,
            sum(device_ns) AS step_device_ns,
            sum(device_ns) FILTER (WHERE phase = 'forward') AS forward_device_ns,
            sum(device_ns) FILTER (WHERE phase = 'backward') AS backward_device_ns,
            sum(device_ns) FILTER (WHERE phase = 'optimizer') AS optimizer_device_ns,
            sum(device_ns) FILTER (WHERE phase IN ('rest', 'zero_grad', 'data_loading')) AS rest_device_ns
        FROM phase_times
        GROUP BY trace, rank
    ),

    -- A rank that lacks a phase which others have has spent no time in it.
    filled AS (
        SELECT
            trace, rank, step_count, step_ns, rest_ns, step_device_ns, rest_device_ns,
            CASE WHEN max(forward_ns) OVER (PARTITION BY trace) IS NOT NULL THEN coalesce(forward_ns, 0) END AS forward_ns,
            CASE WHEN max(backward_ns) OVER (PARTITION BY trace) IS NOT NULL THEN coalesce(backward_ns, 0) END AS backward_ns,
            CASE WHEN max(optimizer_ns) OVER (PARTITION BY trace) IS NOT NULL THEN coalesce(optimizer_ns, 0) END AS optimizer_ns,
            CASE WHEN max(zero_grad_ns) OVER (PARTITION BY trace) IS NOT NULL THEN coalesce(zero_grad_ns, 0) END AS zero_grad_ns,
            CASE WHEN max(data_loading_ns) OVER (PARTITION BY trace) IS NOT NULL THEN coalesce(data_loading_ns, 0) END AS data_loading_ns,
            CASE WHEN max(forward_device_ns) OVER (PARTITION BY trace) IS NOT NULL AND step_device_ns IS NOT NULL THEN coalesce(forward_device_ns, 0) END AS forward_device_ns,
            CASE WHEN max(backward_device_ns) OVER (PARTITION BY trace) IS NOT NULL AND step_device_ns IS NOT NULL THEN coalesce(backward_device_ns, 0) END AS backward_device_ns,
            CASE WHEN max(optimizer_device_ns) OVER (PARTITION BY trace) IS NOT NULL AND step_device_ns IS NOT NULL THEN coalesce(optimizer_device_ns, 0) END AS optimizer_device_ns
        FROM ranks
        WHERE step_count > 0
    ),

    per_step AS (
        SELECT
            trace, rank, step_count,
            step_ns / step_count / 1e6 AS step_ms,
            forward_ns / step_count / 1e6 AS forward_ms,
            backward_ns / step_count / 1e6 AS backward_ms,
            optimizer_ns / step_count / 1e6 AS optimizer_ms,
            rest_ns / step_count / 1e6 AS rest_ms,
            zero_grad_ns / step_count / 1e6 AS zero_grad_ms,
            data_loading_ns / step_count / 1e6 AS data_loading_ms,
            step_device_ns / step_count / 1e6 AS step_device_ms,
            forward_device_ns / step_count / 1e6 AS forward_device_ms,
            backward_device_ns / step_count / 1e6 AS backward_device_ms,
            optimizer_device_ns / step_count / 1e6 AS optimizer_device_ms,
            CASE WHEN step_device_ns IS NOT NULL THEN coalesce(rest_device_ns, 0) / step_count / 1e6 END
                AS rest_device_ms,
            100.0 * forward_ns / nullif(step_ns, 0) AS forward_host_pct,
            100.0 * backward_ns / nullif(step_ns, 0) AS backward_host_pct,
            100.0 * optimizer_ns / nullif(step_ns, 0) AS optimizer_host_pct,
            100.0 * rest_ns / nullif(step_ns, 0) AS rest_host_pct,
            100.0 * forward_device_ns / nullif(step_device_ns, 0) AS forward_device_pct,
            100.0 * backward_device_ns / nullif(step_device_ns, 0) AS backward_device_pct,
            100.0 * optimizer_device_ns / nullif(step_device_ns, 0) AS optimizer_device_pct,
            100.0 * coalesce(rest_device_ns, 0) / nullif(step_device_ns, 0) AS rest_device_pct
        FROM filled
    ),

    totals AS (
        SELECT
            trace,
            avg(forward_host_pct ORDER BY rank) AS forward_host_pct,
            avg(backward_host_pct ORDER BY rank) AS backward_host_pct,
            avg(optimizer_host_pct ORDER BY rank) AS optimizer_host_pct,
            avg(rest_host_pct ORDER BY rank) AS rest_host_pct,
            avg(rest_device_pct ORDER BY rank) AS rest_device_pct,
            coalesce(max(step_device_ms) > 0, FALSE) AS on_devices,
            avg(forward_ms ORDER BY rank) AS forward_time_ms,
            avg(backward_ms ORDER BY rank) AS backward_time_ms,
            avg(optimizer_ms ORDER BY rank) AS optimizer_time_ms,
            avg(rest_ms ORDER BY rank) AS rest_time_ms,
            avg(zero_grad_ms ORDER BY rank) AS zero_grad_time_ms,
            avg(data_loading_ms ORDER BY rank) AS data_loading_time_ms,
            avg(step_ms ORDER BY rank) AS step_time_ms,
            avg(forward_device_ms ORDER BY rank) AS forward_device_ms,
            avg(backward_device_ms ORDER BY rank) AS backward_device_ms,
            avg(optimizer_device_ms ORDER BY rank) AS optimizer_device_ms,
            avg(rest_device_ms ORDER BY rank) AS rest_device_ms,
            avg(step_device_ms ORDER BY rank) AS step_device_ms,
            avg(forward_device_pct ORDER BY rank) AS forward_device_pct,
            avg(backward_device_pct ORDER BY rank) AS backward_device_pct,
            avg(optimizer_device_pct ORDER BY rank) AS optimizer_device_pct,
            array_agg({
                rank: rank, steps: step_count, step_ms: step_ms, forward_ms: forward_ms,
                backward_ms: backward_ms, optimizer_ms: optimizer_ms, rest_ms: rest_ms,
                step_device_ms: step_device_ms, forward_device_ms: forward_device_ms,
                backward_device_ms: backward_device_ms, optimizer_device_ms: optimizer_device_ms,
                rest_device_ms: rest_device_ms
            } ORDER BY rank) AS per_rank
        FROM per_step
        GROUP BY trace
    ),

    phase_names AS (
        SELECT DISTINCT trace, phase
        FROM phase_times
    ),

    phase_ranks AS (
        SELECT
            n.trace, r.rank, n.phase,
            CASE WHEN n.phase <> 'rest' THEN CAST(coalesce(sum(p.windows), 0) AS DOUBLE) / max(r.step_count) END AS windows,
            coalesce(sum(p.host_ns), 0) / max(r.step_count) / 1e6 AS host_ms,
            coalesce(sum(p.device_ns), CASE WHEN max(r.step_device_ms) IS NOT NULL THEN 0 END) / max(r.step_count) / 1e6 AS device_ms,
            coalesce(sum(p.launched_ns), CASE WHEN max(r.step_device_ms) IS NOT NULL THEN 0 END) / max(r.step_count) / 1e6 AS launched_ms,
            coalesce(sum(p.comm_ns), CASE WHEN max(r.step_device_ms) IS NOT NULL THEN 0 END) / max(r.step_count) / 1e6 AS comm_ms,
            coalesce(sum(p.compute_ns), CASE WHEN max(r.step_device_ms) IS NOT NULL THEN 0 END) / max(r.step_count) / 1e6 AS compute_ms,
            coalesce(sum(p.work_ns), CASE WHEN max(r.step_device_ms) IS NOT NULL THEN 0 END) / max(r.step_count) / 1e6 AS work_ms,
            CAST(coalesce(sum(p.events), CASE WHEN max(r.step_device_ms) IS NOT NULL THEN 0 END) AS DOUBLE) / max(r.step_count) AS events
        FROM phase_names AS n
        INNER JOIN per_step AS r ON r.trace = n.trace
        LEFT JOIN phase_times AS p ON p.trace = n.trace AND p.rank = r.rank AND p.phase = n.phase
        GROUP BY n.trace, r.rank, n.phase
    ),

    phase_means AS (
        SELECT
            trace, phase,
            avg(windows ORDER BY rank) AS windows,
            avg(host_ms ORDER BY rank) AS host_ms,
            avg(device_ms ORDER BY rank) AS device_ms,
            avg(launched_ms ORDER BY rank) AS launched_ms,
            avg(comm_ms ORDER BY rank) AS comm_ms,
            avg(compute_ms ORDER BY rank) AS compute_ms,
            avg(work_ms ORDER BY rank) AS work_ms,
            avg(events ORDER BY rank) AS events
        FROM phase_ranks
        GROUP BY trace, phase
    ),

    phase_lists AS (
        SELECT
            trace,
            array_agg({
                phase: phase, windows: windows, host_ms: host_ms, device_ms: device_ms,
                launched_ms: launched_ms, comm_ms: comm_ms, compute_ms: compute_ms, work_ms: work_ms,
                device_events: events
            } ORDER BY phase) AS phases
        FROM phase_means
        GROUP BY trace
    ),

    layer_ranks AS (
        SELECT
            l.trace, l.rank, l.layer,
            sum(l.host_ns) FILTER (WHERE l.phase = 'forward') / max(r.step_count) / 1e6 AS forward_ms,
            sum(l.host_ns) FILTER (WHERE l.phase = 'backward') / max(r.step_count) / 1e6 AS backward_ms,
            sum(l.device_ns) FILTER (WHERE l.phase = 'forward') / max(r.step_count) / 1e6 AS forward_device_ms,
            sum(l.device_ns) FILTER (WHERE l.phase = 'backward') / max(r.step_count) / 1e6 AS backward_device_ms
        FROM layer_times AS l
        INNER JOIN per_step AS r ON r.trace = l.trace AND r.rank = l.rank
        WHERE l.step IS NOT NULL OR NOT EXISTS (
            SELECT 1 FROM steps AS s WHERE s.trace = l.trace AND s.rank = l.rank
        )
        GROUP BY l.trace, l.rank, l.layer
    ),

    layer_means AS (
        SELECT
            trace, layer,
            avg(forward_ms ORDER BY rank) AS forward_ms,
            avg(backward_ms ORDER BY rank) AS backward_ms,
            avg(forward_device_ms ORDER BY rank) AS forward_device_ms,
            avg(backward_device_ms ORDER BY rank) AS backward_device_ms
        FROM layer_ranks
        GROUP BY trace, layer
    ),

    layer_lists AS (
        SELECT
            trace,
            -- layers.2 before layers.10
            array_agg({
                layer: layer, forward_ms: forward_ms, backward_ms: backward_ms,
                forward_device_ms: forward_device_ms, backward_device_ms: backward_device_ms
            } ORDER BY length(layer), layer) AS layer_breakdown_ms
        FROM layer_means
        GROUP BY trace
    ),

    fsdp_ranks AS (
        SELECT f.trace, f.rank, sum(f.host_ns) / max(r.step_count) / 1e6 AS fsdp_ms
        FROM fsdp_ranges AS f
        INNER JOIN per_step AS r ON r.trace = f.trace AND r.rank = f.rank
        WHERE f.step IS NOT NULL OR NOT EXISTS (
            SELECT 1 FROM steps AS s WHERE s.trace = f.trace AND s.rank = f.rank
        )
        GROUP BY f.trace, f.rank
    ),

    fsdp_totals AS (
        SELECT trace, avg(fsdp_ms ORDER BY rank) AS fsdp_time_ms
        FROM fsdp_ranks
        GROUP BY trace
    ),

    stepped AS (
        SELECT DISTINCT trace
        FROM steps
    )

SELECT
    t.trace,
    CASE WHEN t.on_devices THEN t.forward_device_pct ELSE t.forward_host_pct END AS forward_pct,
    CASE WHEN t.on_devices THEN t.backward_device_pct ELSE t.backward_host_pct END AS backward_pct,
    CASE WHEN t.on_devices THEN t.optimizer_device_pct ELSE t.optimizer_host_pct END
        AS optimizer_pct,
    CASE WHEN t.on_devices THEN t.rest_device_pct ELSE t.rest_host_pct END AS rest_pct,
    t.forward_time_ms, t.backward_time_ms, t.optimizer_time_ms, t.rest_time_ms, t.zero_grad_time_ms,
    t.data_loading_time_ms, t.step_time_ms, t.forward_device_ms, t.backward_device_ms,
    t.optimizer_device_ms, t.rest_device_ms, t.step_device_ms, t.forward_device_pct,
    t.backward_device_pct, t.optimizer_device_pct, t.rest_device_pct, t.forward_host_pct,
    t.backward_host_pct, t.optimizer_host_pct, t.rest_host_pct, p.phases, l.layer_breakdown_ms,
    f.fsdp_time_ms, t.per_rank,
    CASE WHEN t.on_devices THEN 'device_' ELSE 'host_' END
        || CASE WHEN s.trace IS NULL THEN 'window' ELSE 'steps' END AS method,
    c.launch_coverage_ratio
FROM totals AS t
INNER JOIN phase_lists AS p ON p.trace = t.trace
LEFT JOIN layer_lists AS l ON l.trace = t.trace
LEFT JOIN fsdp_totals AS f ON f.trace = t.trace
LEFT JOIN stepped AS s ON s.trace = t.trace
LEFT JOIN _launch_coverage AS c ON c.trace = t.trace
ORDER BY t.trace
