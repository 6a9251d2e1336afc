-- @metric   step_breakdown
-- @version  1
-- @area     devices
-- @summary  What the kernels that a step launches spend their time on: communication, attention,
--           routing and work of experts, GEMMs, and the rest; the value is the share of the
--           largest.
-- @grain    trace
-- @requires kernel_times
-- @reads    _kernel_sums _step_times _mean_step_times kernel_classes _step_sums _class_reasons
-- @value    largest_part_pct
-- @answer   largest_part
-- @alias    break_down_steps
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'kernels')
--           | the names of some kernels are lost, or whole CUDA graphs were traced
-- @coverage in_steps_ratio | the step that launched them is, by the time of the kernels,
-- @null     no step launches a kernel that takes time
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   largest_part_pct DOUBLE value pct | Share of the largest part in the kernel time of a
--           step.
-- @column   largest_part VARCHAR value - | That part: comm, attention, moe_routing, moe_expert,
--           gemm or other; the first by name of equals.
-- @column   comm_ms DOUBLE value ms lower | Durations of the kernels of communication that a step
--           launches: mean over the steps of a rank, then over ranks; so too the next five.
-- @column   attention_ms DOUBLE value ms | Those of attention.
-- @column   moe_routing_ms DOUBLE value ms | Those that score, sort, permute and combine tokens for
--           experts.
-- @column   moe_expert_ms DOUBLE value ms | Those that do the work of experts, GEMMs too.
-- @column   gemm_ms DOUBLE value ms | Other GEMMs, and convolutions.
-- @column   other_ms DOUBLE value ms | All else: elementwise, normalization, reductions, copies by
--           kernels.
-- @column   comm_pct DOUBLE value pct lower | 100 x comm_ms / kernel_ms; so too the next five,
--           which make 100 together.
-- @column   attention_pct DOUBLE value pct | Share of attention.
-- @column   moe_routing_pct DOUBLE value pct | Share of routing.
-- @column   moe_expert_pct DOUBLE value pct | Share of the work of experts.
-- @column   gemm_pct DOUBLE value pct | Share of other GEMMs.
-- @column   other_pct DOUBLE value pct | Share of all else.
-- @column   kernel_ms DOUBLE value ms | Durations of all kernels that a step launches.
-- @column   step_ms DOUBLE value ms lower | Mean step time (that of avg_step_time); NULL without
--           steps.
-- @column   method VARCHAR value - | steps, or trace where there are no steps: all kernels, as if
--           the trace were one step.
-- @column   in_steps_ratio DOUBLE value ratio | Share of the kernel time of the trace that belongs
--           to a step, of all steps and not only those that count; 1 by method trace.
-- @column   per_rank LIST value - | Per rank: steps, and time of each part per step.
-- @caveat   Durations are added up: what runs at the same time counts twice, so that kernel_ms can
--           be more than step_ms. A kernel of communication lasts as long as it waits for other
--           ranks.
-- @source   metrics 2.F kernel_breakdown (defect D51: for all profilers, GEMMs are no other, and a
--           kernel is of experts only by the names in kernel_patterns)
WITH
    -- A name is one part, whatever launches it.
    parts AS (
        SELECT DISTINCT
            trace, class, name,
            CASE
                WHEN kernel_class = 'communication' THEN 'comm'
                WHEN moe_part = 'routing' THEN 'moe_routing'
                WHEN moe_part = 'expert' THEN 'moe_expert'
                WHEN kernel_class IN ('attention', 'gemm') THEN kernel_class
                ELSE 'other'
            END AS part
        FROM kernel_classes
    ),

    stepped AS (
        SELECT trace, rank, class, name, step, dur_ns
        FROM _step_sums
        WHERE class IN ('compute', 'comm') AND step IS NOT NULL
    ),

    sums AS (
        SELECT s.trace, s.rank, s.step, p.part, sum(s.dur_ns) AS dur_ns
        FROM stepped AS s
        INNER JOIN parts AS p
            ON p.trace = s.trace
            AND p.class = s.class
            AND p.name IS NOT DISTINCT FROM s.name
        GROUP BY s.trace, s.rank, s.step, p.part
    ),

    step_counts AS (
        SELECT trace, rank, count(*) AS step_count
        FROM _step_times
        GROUP BY trace, rank
    ),

    rank_parts AS (
        SELECT c.trace, c.rank, 'steps' AS method, c.step_count, s.part, sum(s.dur_ns) AS dur_ns
        FROM step_counts AS c
        INNER JOIN _step_times AS t ON t.trace = c.trace AND t.rank = c.rank
        INNER JOIN sums AS s ON s.trace = t.trace AND s.rank = t.rank AND s.step = t.step
        GROUP BY c.trace, c.rank, c.step_count, s.part
        UNION ALL
        SELECT k.trace, k.rank, 'trace', 1, p.part, sum(k.dur_ns)
        FROM _kernel_sums AS k
        INNER JOIN parts AS p
            ON p.trace = k.trace
            AND p.class = k.class
            AND p.name IS NOT DISTINCT FROM k.name
        WHERE k.rank IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM step_counts AS c WHERE c.trace = k.trace)
        GROUP BY k.trace, k.rank, p.part
    ),

    per_rank AS (
        SELECT
            trace, rank, method, step_count,
            sum(dur_ns) / 1e6 / step_count AS kernel_ms,
            coalesce(sum(dur_ns) FILTER (WHERE part = 'comm'), 0) / 1e6 / step_count AS comm_ms,
            coalesce(sum(dur_ns) FILTER (WHERE part = 'attention'), 0) / 1e6 / step_count AS attention_ms,
            coalesce(sum(dur_ns) FILTER (WHERE part = 'moe_routing'), 0) / 1e6 / step_count
                AS moe_routing_ms,
            coalesce(sum(dur_ns) FILTER (WHERE part = 'moe_expert'), 0) / 1e6 / step_count
                AS moe_expert_ms,
            coalesce(sum(dur_ns) FILTER (WHERE part = 'gemm'), 0) / 1e6 / step_count AS gemm_ms,
            coalesce(sum(dur_ns) FILTER (WHERE part = 'other'), 0) / 1e6 / step_count AS other_ms
        FROM rank_parts
        GROUP BY trace, rank, method, step_count
    ),

    means AS (
        SELECT
            trace,
            min(method) AS method,
            avg(kernel_ms ORDER BY rank) AS kernel_ms,
            avg(comm_ms ORDER BY rank) AS comm_ms,
            avg(attention_ms ORDER BY rank) AS attention_ms,
            avg(moe_routing_ms ORDER BY rank) AS moe_routing_ms,
            avg(moe_expert_ms ORDER BY rank) AS moe_expert_ms,
            avg(gemm_ms ORDER BY rank) AS gemm_ms,
            avg(other_ms ORDER BY rank) AS other_ms,
            array_agg({
                rank: rank, steps: step_count, kernel_ms: kernel_ms, comm_ms: comm_ms,
                attention_ms: attention_ms, moe_routing_ms: moe_routing_ms,
                moe_expert_ms: moe_expert_ms, gemm_ms: gemm_ms, other_ms: other_ms
            } ORDER BY rank) AS per_rank
        FROM per_rank
        GROUP BY trace
    ),

    largest AS (
        SELECT trace, part
        FROM (
            SELECT trace, 'comm' AS part, comm_ms AS part_ms
            FROM means
            UNION ALL
            SELECT trace, 'attention', attention_ms
            FROM means
            UNION ALL
            SELECT trace, 'moe_routing', moe_routing_ms
            FROM means
            UNION ALL
            SELECT trace, 'moe_expert', moe_expert_ms
            FROM means
            UNION ALL
            SELECT trace, 'gemm', gemm_ms
            FROM means
            UNION ALL
            SELECT trace, 'other', other_ms
            FROM means
        ) AS part_times
        WHERE part_ms > 0
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY part_ms DESC, part) = 1
    ),

    in_steps AS (
        SELECT trace, sum(dur_ns) AS dur_ns
        FROM sums
        GROUP BY trace
    ),

    all_kernels AS (
        SELECT trace, sum(dur_ns) AS dur_ns
        FROM _kernel_sums
        WHERE rank IS NOT NULL
        GROUP BY trace
    ),

    shares AS (
        SELECT
            m.trace, m.method, m.kernel_ms, m.comm_ms, m.attention_ms, m.moe_routing_ms,
            m.moe_expert_ms, m.gemm_ms, m.other_ms, m.per_rank,
            100.0 * m.comm_ms / nullif(m.kernel_ms, 0) AS comm_pct,
            100.0 * m.attention_ms / nullif(m.kernel_ms, 0) AS attention_pct,
            100.0 * m.moe_routing_ms / nullif(m.kernel_ms, 0) AS moe_routing_pct,
            100.0 * m.moe_expert_ms / nullif(m.kernel_ms, 0) AS moe_expert_pct,
            100.0 * m.gemm_ms / nullif(m.kernel_ms, 0) AS gemm_pct,
            100.0 * m.other_ms / nullif(m.kernel_ms, 0) AS other_pct,
            CASE
                WHEN m.method = 'trace' THEN 1.0
                ELSE CAST(i.dur_ns AS DOUBLE) / nullif(a.dur_ns, 0)
            END AS in_steps_ratio
        FROM means AS m
        LEFT JOIN in_steps AS i ON i.trace = m.trace
        LEFT JOIN all_kernels AS a ON a.trace = m.trace
    )

SELECT
    s.trace,
    CASE l.part
        WHEN 'comm' THEN s.comm_pct
        WHEN 'attention' THEN s.attention_pct
        WHEN 'moe_routing' THEN s.moe_routing_pct
        WHEN 'moe_expert' THEN s.moe_expert_pct
        WHEN 'gemm' THEN s.gemm_pct
        WHEN 'other' THEN s.other_pct
    END AS largest_part_pct,
    l.part AS largest_part,
    s.comm_ms, s.attention_ms, s.moe_routing_ms, s.moe_expert_ms, s.gemm_ms, s.other_ms,
    s.comm_pct, s.attention_pct, s.moe_routing_pct, s.moe_expert_pct, s.gemm_pct, s.other_pct,
    s.kernel_ms, 1e3 * p.step_s AS step_ms, s.method, s.in_steps_ratio, s.per_rank
FROM shares AS s
LEFT JOIN largest AS l ON l.trace = s.trace
LEFT JOIN _mean_step_times AS p ON p.trace = s.trace
ORDER BY s.trace
