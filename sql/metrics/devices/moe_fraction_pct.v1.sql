-- @metric   moe_fraction_pct
-- @version  1
-- @area     devices
-- @summary  Share of kernel time in the kernels of a mixture of experts: routing of tokens, and the
--           work of the experts.
-- @grain    trace
-- @requires kernel_times
-- @reads    _kernel_sums device_events _class_reasons
-- @value    moe_fraction_pct
-- @alias    moe_fraction
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'kernels')
--           | the names of some kernels are lost, or whole CUDA graphs were traced
-- @coverage classified_ratio | what the kernels do is, by their time,
-- @null     the kernels of the trace take no time
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   moe_fraction_pct DOUBLE value pct | 100 x durations of the kernels of a mixture of
--           experts / durations of all kernels, mean over ranks.
-- @column   routing_pct DOUBLE value pct lower | Share of those that score, sort, permute and
--           combine tokens.
-- @column   expert_pct DOUBLE value pct | Share of those that do the work of the experts.
-- @column   all_ranks_pct DOUBLE value pct | The share over all ranks together (moe_pct of the
--           metric kernel).
-- @column   moe_time_ms DOUBLE value ms | Time of those kernels, mean over ranks.
-- @column   classified_ratio DOUBLE value ratio | Share of kernel time whose class is known.
-- @column   top_kernels LIST value - | The 10 names with most time among them: part (routing
--           expert), total_ms, count, pct of all kernel time, over all ranks.
-- @column   per_rank MAP value pct | Share of each rank.
-- @caveat   Exchange of tokens between ranks (all-to-all, DeepEP) is communication and not in it;
--           GEMMs of experts that have names of common ones (cuBLAS) are not either.
-- @source   metrics 2.F moe_fraction_pct (defect D49: one list for all profilers, in
--           kernel_patterns; `aggregate_` and the combining kernels of split attention are no
--           experts)
WITH
    kernels AS (
        SELECT trace, rank, name, kernel_class, moe_part, events, dur_ns
        FROM _kernel_sums
    ),

    per_rank AS (
        SELECT
            trace, rank,
            sum(dur_ns) AS dur_ns,
            coalesce(sum(dur_ns) FILTER (WHERE moe_part = 'routing'), 0) AS routing_ns,
            coalesce(sum(dur_ns) FILTER (WHERE moe_part = 'expert'), 0) AS expert_ns,
            coalesce(sum(dur_ns) FILTER (WHERE kernel_class = 'other'), 0) AS other_ns
        FROM kernels
        GROUP BY trace, rank
    ),

    totals AS (
        SELECT
            trace,
            avg(100.0 * (routing_ns + expert_ns) / nullif(dur_ns, 0) ORDER BY rank)
                AS moe_fraction_pct,
            avg(100.0 * routing_ns / nullif(dur_ns, 0) ORDER BY rank) AS routing_pct,
            avg(100.0 * expert_ns / nullif(dur_ns, 0) ORDER BY rank) AS expert_pct,
            100.0 * sum(routing_ns + expert_ns) / nullif(sum(dur_ns), 0) AS all_ranks_pct,
            avg(routing_ns + expert_ns) / 1e6 AS moe_time_ms,
            1.0 - CAST(sum(other_ns) AS DOUBLE) / nullif(sum(dur_ns), 0) AS classified_ratio,
            sum(dur_ns) AS dur_ns,
            map(
                array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
                array_agg(100.0 * (routing_ns + expert_ns) / nullif(dur_ns, 0) ORDER BY rank)
            ) AS per_rank
        FROM per_rank
        WHERE rank IS NOT NULL
        GROUP BY trace
    ),

    names AS (
        SELECT
            trace, name, moe_part, sum(dur_ns) AS dur_ns, TRY_CAST(sum(events) AS BIGINT) AS kernel_count
        FROM kernels
        WHERE moe_part IS NOT NULL AND rank IS NOT NULL
        GROUP BY trace, name, moe_part
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY sum(dur_ns) DESC, name) <= 10
    ),

    name_lists AS (
        SELECT
            n.trace,
            array_agg({
                name: n.name, part: n.moe_part, total_ms: n.dur_ns / 1e6, count: n.kernel_count,
                pct: 100.0 * n.dur_ns / nullif(t.dur_ns, 0)
            } ORDER BY n.dur_ns DESC, n.name) AS top_kernels
        FROM names AS n
        INNER JOIN totals AS t ON t.trace = n.trace
        GROUP BY n.trace
    )

SELECT
    t.trace, t.moe_fraction_pct, t.routing_pct, t.expert_pct, t.all_ranks_pct, t.moe_time_ms,
    t.classified_ratio, coalesce(n.top_kernels, []) AS top_kernels, t.per_rank
FROM totals AS t
LEFT JOIN name_lists AS n ON n.trace = t.trace
ORDER BY t.trace
