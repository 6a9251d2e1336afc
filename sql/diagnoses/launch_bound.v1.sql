-- @diagnosis launch_bound
-- @version  1
-- @summary  The host launches kernels later than the devices could run them.
-- @profilers kineto nsys
-- @requires device_events launches _cost_bounds
-- @reads    _idle_labels _diagnosis_limits
-- @check    (SELECT count(*) FROM device_events WHERE source <> 'xla') > 0
--           | XLA launches whole programs, so that its device events have no launches of their own
-- @gain     the part launch of step_account gone on all ranks, and with it the part kernel_gap
--           where that is the smaller of the two (else it counts in short_kernels): a rank loses
--           that time, and of its exposed waiting for another rank no more than that one loses; the
--           step loses what the rank loses that loses least
-- @shown    idle_causes
-- @caveat   Only gaps with no more than 100 us of other work of the host are launch; longer ones
--           are host_stalls. A profiler that records the host makes launches slower.
-- @source   step_account; by operator as in idle_causes
WITH
    labels AS (
        SELECT trace, kind, name, sum(time_ms ORDER BY rank) AS time_ms
        FROM _idle_labels
        WHERE part = 'launch' AND kind = 'operator'
        GROUP BY trace, kind, name
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY sum(time_ms ORDER BY rank) DESC, name
        ) <= 3
    ),

    totals AS (
        SELECT
            trace, sum(time_ms ORDER BY rank) AS time_ms,
            sum(spans_per_step ORDER BY rank) AS spans_per_step
        FROM _idle_labels
        WHERE part = 'launch' AND kind = 'all'
        GROUP BY trace
    ),

    -- Of which in calls that take long by themselves.
    calls AS (
        SELECT
            trace, sum(time_ms ORDER BY name) AS time_ms,
            arg_max(name, {time_ms: time_ms, name: name}) AS name
        FROM (
            SELECT trace, name, sum(time_ms ORDER BY rank) AS time_ms
            FROM _idle_labels
            WHERE part = 'launch' AND kind = 'call'
            GROUP BY trace, name
        )
        GROUP BY trace
    ),

    operators AS (
        SELECT
            l.trace,
            string_agg(
                printf('%s (%.0f %%)', l.name, 100 * l.time_ms / t.time_ms), ', '
                ORDER BY l.time_ms DESC, l.name
            ) AS names
        FROM labels AS l
        INNER JOIN totals AS t ON t.trace = l.trace
        GROUP BY l.trace
    )

SELECT
    b.trace,
    printf(
        'launches do not keep up with the devices: %.3f ms of a step idle (%.1f %%)%s, in %.0f gaps of %.1f us on average; the launching thread is %s then%s%s',
        b.own_ms, 100 * b.own_ms / b.step_ms, b.ranks_text,
        t.spans_per_step / b.rank_count, 1e3 * t.time_ms / t.spans_per_step,
        coalesce('in ' || o.names, 'in no operator'),
        CASE WHEN c.time_ms >= t.time_ms / 10
            THEN printf(
                '; %.3f ms of it pass in calls of 100 us and more, most in %s',
                c.time_ms / b.rank_count, c.name
            )
            ELSE ''
        END,
        CASE WHEN k.own_ms <= b.own_ms
            THEN printf('; %.3f ms more between kernels that were launched', k.own_ms)
            ELSE ''
        END
    ) AS finding,
    {rank: CASE WHEN b.is_of_one THEN b.most_rank END} AS "where",
    CASE WHEN k.own_ms <= b.own_ms THEN a.time_ms ELSE b.time_ms END AS time_per_step_ms,
    CASE WHEN k.own_ms <= b.own_ms THEN a.gain_ms ELSE b.gain_ms END AS gain_ms,
    [l.steps_limit, l.launches_limit, l.matches_limit] AS limits,
    CASE
        WHEN c.time_ms > t.time_ms / 2 AND c.name LIKE '%GraphLaunch%'
            THEN 'make the graph cheaper to launch: fewer nodes (fused kernels, no nodes without work), a replay or cudaGraphUpload before it is needed, and launch it while the device still computes what comes before'
        WHEN c.time_ms > t.time_ms / 2
            THEN 'single launches take long: a first call loads its kernels, so warm up with all shapes before the steps (or CUDA_MODULE_LOADING=EAGER); else look at what holds the call up (nsys with osrt, perf): other threads that launch, cores that are taken'
        ELSE 'record the step in CUDA graphs: torch.compile(mode="reduce-overhead"), torch.cuda.make_graphed_callables, in Megatron-LM its CUDA graph options; else launch fewer, larger kernels: fused or foreach optimizers, torch.compile, a larger micro-batch. Keep the host ahead: no synchronisation in the step'
    END AS advice,
    'SELECT rank, kind, name, time_ms, spans_per_step FROM _idle_labels WHERE trace = {trace} AND part = ''launch'' ORDER BY time_ms DESC LIMIT 20'
        AS evidence
FROM _cost_bounds AS b
INNER JOIN _diagnosis_limits AS l ON l.trace = b.trace
INNER JOIN totals AS t ON t.trace = b.trace
LEFT JOIN _cost_bounds AS a ON a.trace = b.trace AND a.subject = 'launches'
LEFT JOIN _cost_bounds AS k
    ON k.trace = b.trace AND k.subject = 'part' AND k.key = 'kernel_gap'
LEFT JOIN operators AS o ON o.trace = b.trace
LEFT JOIN calls AS c ON c.trace = b.trace
WHERE b.subject = 'part' AND b.key = 'launch' AND b.gain_ms > 0
