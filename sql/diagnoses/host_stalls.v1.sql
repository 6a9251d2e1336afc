-- @diagnosis host_stalls
-- @version  1
-- @summary  Devices are idle for long, while the host does other work than launching.
-- @profilers kineto nsys
-- @requires device_events launches _cost_bounds
-- @reads    _idle_labels _late_ranks host_ranges _diagnosis_limits
-- @check    (SELECT count(*) FROM device_events WHERE source <> 'xla') > 0
--           | XLA launches whole programs, so that its device events have no launches of their own
-- @gain     the part host of step_account gone on all ranks: a rank loses that time, and of its
--           exposed waiting for another rank no more than that one loses; the step loses what the
--           rank loses that loses least
-- @shown    idle_causes
-- @caveat   What the step loses as the host of one rank alone is late is in late_rank, and not
--           here; gaps of a rank of which that is most are not counted. A gap is host where more
--           than 100 us of it pass before the launch call, no call waits for the device and no data
--           is loaded. What the host does without an operator is Python or other code that the
--           trace does not name.
-- @source   step_account
WITH
    -- Of a rank that is late by most of it late_rank speaks.
    idle AS (
        SELECT
            i.trace, i.rank, i.kind, i.name, i.time_ms, i.spans_per_step, i.longest_ms,
            sum(i.time_ms) FILTER (WHERE i.kind = 'all') OVER (PARTITION BY i.trace, i.rank) AS rank_ms,
            coalesce(l.share_ms, 0) AS share_ms
        FROM _idle_labels AS i
        LEFT JOIN _late_ranks AS l
            ON l.trace = i.trace AND l.rank = i.rank AND l.part = i.part
        WHERE i.part = 'host'
        QUALIFY coalesce(l.share_ms, 0) <= rank_ms / 2
    ),

    totals AS (
        SELECT
            trace, sum(time_ms ORDER BY rank) AS time_ms, avg(time_ms ORDER BY rank) AS rank_ms,
            sum(spans_per_step ORDER BY rank) AS spans_per_step, max(longest_ms) AS longest_ms
        FROM idle
        WHERE kind = 'all'
        GROUP BY trace
    ),

    shares AS (
        SELECT
            l.trace, l.kind, l.name, 100 * l.time_ms / t.time_ms AS share_pct,
            100 * sum(l.time_ms ORDER BY l.name) OVER (PARTITION BY l.trace, l.kind) / t.time_ms
                AS kind_pct,
            row_number() OVER (
                PARTITION BY l.trace, l.kind ORDER BY l.time_ms DESC, l.name
            ) AS place
        FROM (
            SELECT trace, kind, coalesce(name, '(no name)') AS name, sum(time_ms ORDER BY rank) AS time_ms
            FROM idle
            WHERE kind <> 'all' AND coalesce(name, '') NOT LIKE 'ProfilerStep#%'
            GROUP BY trace, kind, name
        ) AS l
        INNER JOIN totals AS t ON t.trace = l.trace
    ),

    said AS (
        SELECT
            trace, coalesce(max(kind_pct) FILTER (WHERE kind = 'operator'), 0) AS operators_pct,
            max(name) FILTER (WHERE kind = 'operator' AND place = 1) AS operator,
            max(share_pct) FILTER (WHERE kind = 'operator') AS operator_pct,
            max(printf('%s (%.0f %%)', name, share_pct))
                FILTER (WHERE kind = 'operator' AND place = 1) AS operator_text,
            max(printf('%s (%.0f %%)', name, share_pct))
                FILTER (WHERE kind = 'range' AND place = 1) AS range_text,
            max(printf('%s (%.0f %%)', name, share_pct))
                FILTER (WHERE kind = 'phase' AND place = 1) AS phase_text,
            max(printf('%s (%.0f %%)', name, share_pct))
                FILTER (WHERE kind = 'call' AND place = 1 AND share_pct >= 10) AS call_text,
            coalesce(
                sum(share_pct ORDER BY name) FILTER (
                    WHERE kind = 'call' AND (name LIKE '%Malloc%' OR name LIKE '%Free%')
                ), 0
            ) AS memory_pct,
            max(name) FILTER (WHERE kind = 'phase' AND place = 1 AND share_pct >= 50) AS phase
        FROM shares
        GROUP BY trace
    ),

    -- Traces that name what the host does.
    operators AS (
        SELECT DISTINCT trace
        FROM host_ranges
        WHERE kind = 'operator'
    ),

    found AS (
        SELECT
            b.trace, b.step_ms, b.own_ms, b.ranks_text, b.time_ms, b.gain_ms,
            CASE WHEN b.is_of_one THEN b.most_rank END AS rank,
            t.spans_per_step / b.rank_count AS spans_per_step, t.longest_ms,
            t.longest_ms > t.rank_ms / 2 AS is_one, o.trace IS NOT NULL AS has_operators,
            coalesce(s.operators_pct, 0) AS operators_pct, s.operator, s.operator_pct,
            s.operator_text, s.range_text, s.phase_text, s.call_text,
            coalesce(s.memory_pct, 0) AS memory_pct, s.phase
        FROM _cost_bounds AS b
        LEFT JOIN totals AS t ON t.trace = b.trace
        LEFT JOIN said AS s ON s.trace = b.trace
        LEFT JOIN operators AS o ON o.trace = b.trace
        WHERE b.subject = 'part' AND b.key = 'host' AND b.gain_ms > 0
    )

SELECT
    f.trace,
    printf(
        'the host lets the devices idle for more than 100 us at once before it launches: %.3f ms of a step (%.1f %%)%s',
        f.own_ms, 100 * f.own_ms / f.step_ms, f.ranks_text
    )
        || coalesce(printf(', in %.1f gaps, the longest %.3f ms', f.spans_per_step, f.longest_ms), '')
        || CASE
            WHEN NOT f.has_operators OR f.longest_ms IS NULL THEN ''
            WHEN f.operators_pct > 50 THEN printf('; %.0f %% of it in operators', f.operators_pct)
            ELSE printf(
                '; %.0f %% of it in no operator (Python, garbage collection, logging, a checkpoint)',
                100 - f.operators_pct
            )
        END
        || coalesce(', most in ' || f.operator_text, '')
        || coalesce(', in the call ' || f.call_text, '')
        || coalesce(', the range ' || f.range_text, '')
        || coalesce(', the phase ' || f.phase_text, '') AS finding,
    {
        rank: f.rank, phase: f.phase,
        operator: CASE WHEN f.operator_pct >= 50 THEN f.operator END
    } AS "where",
    f.time_ms AS time_per_step_ms,
    f.gain_ms,
    [l.steps_limit, l.launches_limit, l.matches_limit] AS limits,
    CASE
        WHEN f.memory_pct > 50
            THEN 'take memory from the driver once, before the steps: no torch.cuda.empty_cache in the step, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, a first step with the largest shapes; in programs of your own a pool (cudaMallocAsync)'
        WHEN NOT f.has_operators
            THEN 'the trace does not name what the host does in these gaps: sample it (nsys profile --sample=process-tree, perf), set ranges (NVTX) around the parts of the step, and pin processes to the cores beside their device'
        WHEN f.operators_pct > 50 AND f.is_one
            THEN 'most of it is one gap in ' || f.operator || ': look at what it does there (py-spy record --native, perf): kernels that are loaded or tuned in a first call (warm up before the step), memory taken from the driver, other threads on its cores'
        WHEN f.operators_pct > 50
            THEN 'operators take the host this long, ' || f.operator || ' most: torch.compile, with mode="reduce-overhead" for CUDA graphs, or torch.cuda.make_graphed_callables, in Megatron-LM its CUDA graph options; else fewer, larger operators: fused or foreach optimizers, a larger micro-batch'
        ELSE 'look at the host in these gaps (profile with with_stack=True, or py-spy): take logging, metrics and checkpoints out of the step (torch.distributed.checkpoint.async_save), collect garbage at fixed steps on all ranks (gc.disable and gc.collect; torchtitan: gc_freq; Megatron-LM: --manual-gc), and pin processes to the cores beside their device'
    END AS advice,
    'SELECT rank, kind, name, time_ms, spans_per_step, longest_ms FROM _idle_labels WHERE trace = {trace} AND part = ''host'' ORDER BY time_ms DESC LIMIT 20'
        AS evidence
FROM found AS f
INNER JOIN _diagnosis_limits AS l ON l.trace = f.trace
