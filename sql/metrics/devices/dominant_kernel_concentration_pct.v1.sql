-- @metric   dominant_kernel_concentration_pct
-- @version  1
-- @area     devices
-- @summary  Share of kernel time in the kernel that takes most of it.
-- @grain    trace
-- @requires kernel_times
-- @reads    _category_sums _class_reasons
-- @value    dominant_kernel_concentration_pct
-- @answer   dominant_kernel
-- @alias    dominant_kernel_concentration
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'names')
--           | the names of some kernels are lost, or whole CUDA graphs were traced
-- @null     the kernels of the trace take no time
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   dominant_kernel_concentration_pct DOUBLE value pct lower | 100 x durations of the
--           kernels of the name with most time / durations of all kernels, over all ranks.
-- @column   dominant_kernel VARCHAR value - | That name (the first of equals); of XLA, where names
--           are numbered operations, the category of the operation.
-- @column   dominant_compute_pct DOUBLE value pct lower | The largest share among kernels of class
--           compute, of the time of those.
-- @column   dominant_compute_kernel VARCHAR value - | That name.
-- @column   top3_pct DOUBLE value pct | Share of the three names with most time.
-- @column   top_kernels LIST value - | The 10 names with most time: class, time_ms (all ranks),
--           count, pct.
-- @column   name_count BIGINT value count | Distinct names.
-- @column   per_rank MAP value pct | Share of the name with most time on each rank, which may be
--           another on each.
-- @caveat   A kernel of communication lasts as long as it waits for other ranks, and may be the
--           dominant one for that alone: see dominant_compute_pct.
-- @source   metrics 2.F dominant_kernel_concentration_pct (defect D09)
WITH
    -- Operations of XLA by category, where they have one.
    kernels AS (
        SELECT trace, rank, class, name, events, dur_ns
        FROM kernel_times
        WHERE source <> 'xla'
        UNION ALL
        SELECT trace, rank, class, coalesce(hlo_category, name), timed_events, dur_ns
        FROM _category_sums
        WHERE class IN ('compute', 'comm') AND timed_events > 0
    ),

    rank_names AS (
        SELECT
            trace, rank, name, class, sum(dur_ns) AS dur_ns, TRY_CAST(sum(events) AS BIGINT) AS kernel_count
        FROM kernels
        WHERE rank IS NOT NULL AND name IS NOT NULL
        GROUP BY trace, rank, name, class
    ),

    names AS (
        SELECT
            trace, name, class, sum(dur_ns) AS dur_ns, TRY_CAST(sum(kernel_count) AS BIGINT) AS kernel_count,
            sum(sum(dur_ns)) OVER (PARTITION BY trace) AS total_ns,
            sum(sum(dur_ns)) OVER (PARTITION BY trace, class) AS class_ns,
            row_number() OVER (PARTITION BY trace ORDER BY sum(dur_ns) DESC, name, class) AS place,
            row_number() OVER (PARTITION BY trace, class ORDER BY sum(dur_ns) DESC, name) AS class_place
        FROM rank_names
        GROUP BY trace, name, class
    ),

    totals AS (
        SELECT
            trace,
            max(100.0 * dur_ns / nullif(total_ns, 0)) AS largest_pct,
            min(name) FILTER (WHERE place = 1 AND dur_ns > 0) AS largest_name,
            max(100.0 * dur_ns / nullif(class_ns, 0)) FILTER (WHERE class = 'compute') AS compute_pct,
            min(name) FILTER (WHERE class = 'compute' AND class_place = 1 AND dur_ns > 0)
                AS compute_name,
            100.0 * sum(dur_ns) FILTER (WHERE place <= 3) / nullif(sum(dur_ns), 0) AS top3_pct,
            array_agg({
                name: name, class: class, time_ms: dur_ns / 1e6, count: kernel_count,
                pct: 100.0 * dur_ns / nullif(total_ns, 0)
            } ORDER BY place) FILTER (WHERE place <= 10) AS top_kernels,
            count(DISTINCT name) AS name_count
        FROM names
        GROUP BY trace
    ),

    rank_shares AS (
        SELECT trace, rank, 100.0 * max(dur_ns) / nullif(sum(dur_ns), 0) AS share_pct
        FROM rank_names
        GROUP BY trace, rank
    ),

    rank_maps AS (
        SELECT
            trace,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(share_pct ORDER BY rank))
                AS per_rank
        FROM rank_shares
        GROUP BY trace
    )

SELECT
    t.trace, t.largest_pct AS dominant_kernel_concentration_pct,
    t.largest_name AS dominant_kernel, t.compute_pct AS dominant_compute_pct,
    t.compute_name AS dominant_compute_kernel, t.top3_pct, t.top_kernels, t.name_count, r.per_rank
FROM totals AS t
INNER JOIN rank_maps AS r ON r.trace = t.trace
ORDER BY t.trace
