-- @metric   gpu_utilization
-- @version  1
-- @area     devices
-- @summary  Share of the window of a rank in which its devices do anything, mean over ranks.
-- @grain    trace
-- @requires device_events
-- @reads    _rank_times _device_counts _gap_sizes _step_busy ranks
-- @value    utilization_pct
-- @null     no device event has a duration
-- @param    gap_us DOUBLE 10 | Gaps from this length on are macro gaps: shorter ones are about what
--           it takes to launch a kernel, longer ones a wait for something else.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   utilization_pct DOUBLE value pct higher | 100 x |all device events| / window of a rank,
--           mean over ranks; the window is first start to last end of its device events.
-- @column   step_utilization_pct DOUBLE value pct higher | 100 x |all device events inside the
--           steps| / time of the steps, mean over the ranks with steps; NULL without steps.
-- @column   kernel_pct DOUBLE value pct | 100 x |kernels| / window, mean over ranks; what runs at
--           the same time is in several of these shares.
-- @column   memcpy_pct DOUBLE value pct | 100 x |copies| / window, mean over ranks.
-- @column   memset_pct DOUBLE value pct | 100 x |sets| / window, mean over ranks.
-- @column   idle_pct DOUBLE value pct lower | 100 - utilization_pct.
-- @column   window_ms DOUBLE value ms | Window of a rank times its devices, mean over ranks.
-- @column   busy_time_ms DOUBLE value ms | |all device events|, summed over the devices of a rank,
--           mean over ranks; so too the next times.
-- @column   idle_time_ms DOUBLE value ms lower | Window - busy.
-- @column   kernel_time_ms DOUBLE value ms | |kernels|.
-- @column   memcpy_time_ms DOUBLE value ms | |copies|.
-- @column   memset_time_ms DOUBLE value ms | |sets|.
-- @column   micro_gap_time_ms DOUBLE value ms lower | Gaps between busy spans of a device that are
--           shorter than gap_us, mean over ranks.
-- @column   macro_gap_time_ms DOUBLE value ms lower | Gaps not shorter, mean over ranks.
-- @column   micro_gap_count BIGINT value count | Gaps shorter than gap_us, of all ranks.
-- @column   macro_gap_count BIGINT value count | Gaps not shorter.
-- @column   kernel_count BIGINT value count | Kernels of all ranks.
-- @column   memcpy_count BIGINT value count | Copies of all ranks.
-- @column   memset_count BIGINT value count | Sets of all ranks.
-- @column   graph_count BIGINT value count | Whole CUDA graphs of all ranks: busy, of no kind.
-- @column   per_rank LIST value - | Accelerator, utilization, idle share and times of each rank.
-- @caveat   Busy is not fast: a kernel that fills one multiprocessor counts as much as one that
--           fills all, and one that waits for other ranks too.
-- @source   metrics 2.F gpu_utilization_pct (defect D45) and 2.A micro/macro_idle_time
WITH
    rank_times AS (
        SELECT trace, rank, device_count, window_ns, busy_ns, kernel_ns, copy_ns, set_ns
        FROM _rank_times
        WHERE basis = 'device'
    ),

    rank_gaps AS (
        SELECT
            trace, rank,
            coalesce(sum(idle_ns) FILTER (WHERE gap_ns < 1e3 * $gap_us), 0) AS micro_ns,
            coalesce(sum(idle_ns) FILTER (WHERE gap_ns >= 1e3 * $gap_us), 0) AS macro_ns,
            coalesce(sum(gaps) FILTER (WHERE gap_ns < 1e3 * $gap_us), 0) AS micro_count,
            coalesce(sum(gaps) FILTER (WHERE gap_ns >= 1e3 * $gap_us), 0) AS macro_count
        FROM _gap_sizes
        GROUP BY trace, rank
    ),

    counts AS (
        SELECT
            trace, rank,
            TRY_CAST(coalesce(sum(events) FILTER (WHERE class IN ('comm', 'compute')), 0) AS BIGINT)
                AS kernels,
            TRY_CAST(coalesce(sum(events) FILTER (WHERE class = 'copy'), 0) AS BIGINT) AS copies,
            TRY_CAST(coalesce(sum(events) FILTER (WHERE class = 'set'), 0) AS BIGINT) AS sets,
            TRY_CAST(coalesce(sum(events) FILTER (WHERE class = 'graph'), 0) AS BIGINT) AS graphs
        FROM _device_counts
        GROUP BY trace, rank
    ),

    names AS (
        SELECT trace, rank, min(device_name) AS device_name
        FROM ranks
        GROUP BY trace, rank
    ),

    per_rank AS (
        SELECT
            t.trace, t.rank, n.device_name, t.window_ns, t.busy_ns, t.kernel_ns, t.copy_ns, t.set_ns,
            100.0 * t.busy_ns / nullif(t.window_ns, 0) AS busy_pct,
            100.0 * s.busy_ns / nullif(s.step_ns * t.device_count, 0) AS step_pct,
            100.0 * t.kernel_ns / nullif(t.window_ns, 0) AS kernel_pct,
            100.0 * t.copy_ns / nullif(t.window_ns, 0) AS copy_pct,
            100.0 * t.set_ns / nullif(t.window_ns, 0) AS set_pct,
            TRY_CAST(coalesce(g.micro_ns, 0) AS BIGINT) AS micro_ns,
            TRY_CAST(coalesce(g.macro_ns, 0) AS BIGINT) AS macro_ns,
            coalesce(g.micro_count, 0) AS micro_count,
            coalesce(g.macro_count, 0) AS macro_count,
            c.kernels, c.copies, c.sets, c.graphs
        FROM rank_times AS t
        INNER JOIN counts AS c ON c.trace = t.trace AND c.rank = t.rank
        LEFT JOIN names AS n ON n.trace = t.trace AND n.rank = t.rank
        LEFT JOIN rank_gaps AS g ON g.trace = t.trace AND g.rank = t.rank
        LEFT JOIN _step_busy AS s ON s.trace = t.trace AND s.rank = t.rank
    )

SELECT
    trace,
    avg(busy_pct ORDER BY rank) AS utilization_pct,
    avg(step_pct ORDER BY rank) AS step_utilization_pct,
    avg(kernel_pct ORDER BY rank) AS kernel_pct,
    avg(copy_pct ORDER BY rank) AS memcpy_pct,
    avg(set_pct ORDER BY rank) AS memset_pct,
    100.0 - avg(busy_pct ORDER BY rank) AS idle_pct,
    avg(window_ns) / 1e6 AS window_ms,
    avg(busy_ns) / 1e6 AS busy_time_ms,
    avg(window_ns - busy_ns) / 1e6 AS idle_time_ms,
    avg(kernel_ns) / 1e6 AS kernel_time_ms,
    avg(copy_ns) / 1e6 AS memcpy_time_ms,
    avg(set_ns) / 1e6 AS memset_time_ms,
    avg(micro_ns) / 1e6 AS micro_gap_time_ms,
    avg(macro_ns) / 1e6 AS macro_gap_time_ms,
    TRY_CAST(sum(micro_count) AS BIGINT) AS micro_gap_count,
    TRY_CAST(sum(macro_count) AS BIGINT) AS macro_gap_count,
    TRY_CAST(sum(kernels) AS BIGINT) AS kernel_count,
    TRY_CAST(sum(copies) AS BIGINT) AS memcpy_count,
    TRY_CAST(sum(sets) AS BIGINT) AS memset_count,
    TRY_CAST(sum(graphs) AS BIGINT) AS graph_count,
    array_agg({
        rank: rank,
        device_name: device_name,
        utilization_pct: busy_pct,
        step_utilization_pct: step_pct,
        window_ms: window_ns / 1e6,
        busy_time_ms: busy_ns / 1e6,
        idle_time_ms: (window_ns - busy_ns) / 1e6,
        kernel_time_ms: kernel_ns / 1e6,
        memcpy_time_ms: copy_ns / 1e6,
        memset_time_ms: set_ns / 1e6,
        micro_gap_time_ms: micro_ns / 1e6,
        macro_gap_time_ms: macro_ns / 1e6,
        kernel_count: kernels,
        memcpy_count: copies,
        memset_count: sets
    } ORDER BY rank) AS per_rank
FROM per_rank
GROUP BY trace
ORDER BY trace
