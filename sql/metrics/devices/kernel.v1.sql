-- @metric   kernel
-- @version  1
-- @area     devices
-- @summary  What the kernels of all ranks spend their time on, by class; the value is the share of
--           the largest class.
-- @grain    trace
-- @requires kernel_times
-- @reads    _rank_list device_events host_times kernel_classes _class_reasons
-- @value    largest_class_pct
-- @answer   largest_class
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'kernels')
--           | the names of some kernels are lost, or whole CUDA graphs were traced
-- @coverage classified_ratio | what the kernels do is, by their time,
-- @null     the kernels of the trace take no time
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   largest_class_pct DOUBLE value pct | 100 x durations of the class with the most time /
--           durations of all kernels, over all ranks.
-- @column   largest_class VARCHAR value - | That class; the first by name of equals.
-- @column   by_class LIST value - | By class, longest first: time_ms (sum of the durations of a
--           rank, mean over ranks), pct (of all kernel time), kernels (all ranks), names
--           (distinct).
-- @column   by_library LIST value - | By the library that the names come from, longest first:
--           time_ms and pct; NULL for no known one.
-- @column   top_kernels LIST value - | The 10 names with the most time over all ranks: class,
--           count, total_ms, avg_us, min_us, max_us, pct.
-- @column   other_pct DOUBLE value pct lower | Share of kernels whose names and operators say
--           nothing.
-- @column   moe_pct DOUBLE value pct | Share of kernels of a mixture of experts: class moe, and the
--           GEMMs of experts, which by_class has under gemm.
-- @column   classified_ratio DOUBLE value ratio | 1 - other_pct / 100.
-- @column   judged_by_operator_pct DOUBLE value pct | Share whose class is that of the launching
--           operator, for the names say nothing.
-- @column   total_kernel_time_ms DOUBLE value ms | Sum of the durations of a rank, mean over ranks.
-- @column   total_kernel_time_all_ranks_ms DOUBLE value ms | Sum over all ranks.
-- @column   kernel_count BIGINT value count | Kernels of all ranks.
-- @column   name_count BIGINT value count | Distinct names.
-- @column   cpu_overhead_ms DOUBLE value ms lower | Operators of the main thread that run inside
--           steps while no device works, mean over the ranks that have operators; NULL without any.
-- @column   per_rank LIST value - | Kernel time, largest class and its share for each rank.
-- @caveat   Durations are added up: what runs at the same time counts twice. A kernel of
--           communication lasts as long as it waits for other ranks.
-- @caveat   Fused kernels do several things; the class is the first of kernel_patterns that the
--           name shows.
-- @source   metrics 2.F kernel_breakdown (defects D49 to D51: communication first, one list for all
--           profilers, GEMMs are no other)
WITH
    kernels AS (
        SELECT
            t.trace, t.rank, t.name, c.kernel_class, c.library, c.judged_by, c.is_moe,
            t.events, t.dur_ns, t.min_dur_ns, t.max_dur_ns
        FROM kernel_times AS t
        INNER JOIN kernel_classes AS c
            ON c.trace = t.trace
            AND c.source = t.source
            AND c.class = t.class
            AND c.name IS NOT DISTINCT FROM t.name
            AND c.op_name IS NOT DISTINCT FROM t.op_name
        WHERE t.rank IS NOT NULL
    ),

    rank_counts AS (
        SELECT trace, count(*) AS rank_count
        FROM _rank_list
        GROUP BY trace
    ),

    totals AS (
        SELECT
            k.trace, r.rank_count,
            sum(k.dur_ns) AS dur_ns,
            TRY_CAST(sum(k.events) AS BIGINT) AS kernel_count,
            count(DISTINCT k.name) AS name_count,
            coalesce(sum(k.dur_ns) FILTER (WHERE k.kernel_class = 'other'), 0) AS other_ns,
            coalesce(sum(k.dur_ns) FILTER (WHERE k.is_moe), 0) AS moe_ns,
            coalesce(sum(k.dur_ns) FILTER (WHERE k.judged_by = 'operator'), 0) AS operator_ns
        FROM kernels AS k
        INNER JOIN rank_counts AS r ON r.trace = k.trace
        GROUP BY k.trace, r.rank_count
    ),

    class_sums AS (
        SELECT
            trace, kernel_class,
            sum(dur_ns) AS dur_ns,
            TRY_CAST(sum(events) AS BIGINT) AS kernels,
            count(DISTINCT name) AS names
        FROM kernels
        GROUP BY trace, kernel_class
    ),

    class_lists AS (
        SELECT
            c.trace,
            array_agg({
                class: c.kernel_class,
                time_ms: c.dur_ns / 1e6 / t.rank_count,
                pct: 100.0 * c.dur_ns / nullif(t.dur_ns, 0),
                kernels: c.kernels,
                names: c.names
            } ORDER BY c.dur_ns DESC, c.kernel_class) AS by_class
        FROM class_sums AS c
        INNER JOIN totals AS t ON t.trace = c.trace
        GROUP BY c.trace
    ),

    library_sums AS (
        SELECT trace, library, sum(dur_ns) AS dur_ns
        FROM kernels
        GROUP BY trace, library
    ),

    library_lists AS (
        SELECT
            l.trace,
            array_agg({
                library: l.library,
                time_ms: l.dur_ns / 1e6 / t.rank_count,
                pct: 100.0 * l.dur_ns / nullif(t.dur_ns, 0)
            } ORDER BY l.dur_ns DESC, l.library NULLS LAST) AS by_library
        FROM library_sums AS l
        INNER JOIN totals AS t ON t.trace = l.trace
        GROUP BY l.trace
    ),

    name_sums AS (
        SELECT
            trace, name, kernel_class,
            sum(dur_ns) AS dur_ns,
            TRY_CAST(sum(events) AS BIGINT) AS kernels,
            min(min_dur_ns) AS min_dur_ns,
            max(max_dur_ns) AS max_dur_ns
        FROM kernels
        GROUP BY trace, name, kernel_class
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY sum(dur_ns) DESC, name, kernel_class
        ) <= 10
    ),

    name_lists AS (
        SELECT
            n.trace,
            array_agg({
                name: n.name,
                class: n.kernel_class,
                count: n.kernels,
                total_ms: n.dur_ns / 1e6,
                avg_us: n.dur_ns / 1e3 / n.kernels,
                min_us: n.min_dur_ns / 1e3,
                max_us: n.max_dur_ns / 1e3,
                pct: 100.0 * n.dur_ns / nullif(t.dur_ns, 0)
            } ORDER BY n.dur_ns DESC, n.name, n.kernel_class) AS top_kernels
        FROM name_sums AS n
        INNER JOIN totals AS t ON t.trace = n.trace
        GROUP BY n.trace
    ),

    rank_classes AS (
        SELECT
            trace, rank, kernel_class,
            sum(dur_ns) AS dur_ns,
            sum(sum(dur_ns)) OVER (PARTITION BY trace, rank) AS rank_ns
        FROM kernels
        GROUP BY trace, rank, kernel_class
        QUALIFY row_number() OVER (
            PARTITION BY trace, rank ORDER BY sum(dur_ns) DESC, kernel_class
        ) = 1
    ),

    rank_lists AS (
        SELECT
            trace,
            array_agg({
                rank: rank,
                total_kernel_time_ms: rank_ns / 1e6,
                largest_class: kernel_class,
                largest_class_pct: 100.0 * dur_ns / nullif(rank_ns, 0)
            } ORDER BY rank) AS per_rank
        FROM rank_classes
        GROUP BY trace
    ),

    rank_overheads AS (
        SELECT trace, rank, TRY_CAST(sum(exposed_op_ns) AS BIGINT) AS exposed_ns
        FROM host_times
        GROUP BY trace, rank
    ),

    overheads AS (
        SELECT trace, avg(exposed_ns) / 1e6 AS cpu_overhead_ms
        FROM rank_overheads
        GROUP BY trace
    )

SELECT
    t.trace,
    list_extract(c.by_class, 1).pct AS largest_class_pct,
    list_extract(c.by_class, 1).class AS largest_class,
    c.by_class,
    l.by_library,
    n.top_kernels,
    100.0 * t.other_ns / nullif(t.dur_ns, 0) AS other_pct,
    100.0 * t.moe_ns / nullif(t.dur_ns, 0) AS moe_pct,
    1.0 - CAST(t.other_ns AS DOUBLE) / nullif(t.dur_ns, 0) AS classified_ratio,
    100.0 * t.operator_ns / nullif(t.dur_ns, 0) AS judged_by_operator_pct,
    t.dur_ns / 1e6 / t.rank_count AS total_kernel_time_ms,
    t.dur_ns / 1e6 AS total_kernel_time_all_ranks_ms,
    t.kernel_count,
    t.name_count,
    o.cpu_overhead_ms,
    r.per_rank
FROM totals AS t
INNER JOIN class_lists AS c ON c.trace = t.trace
INNER JOIN library_lists AS l ON l.trace = t.trace
INNER JOIN name_lists AS n ON n.trace = t.trace
INNER JOIN rank_lists AS r ON r.trace = t.trace
LEFT JOIN overheads AS o ON o.trace = t.trace
ORDER BY t.trace
