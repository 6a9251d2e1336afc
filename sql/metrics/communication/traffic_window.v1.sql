-- @metric   traffic_window
-- @version  1
-- @area     communication
-- @summary  Communication time of each parallel dimension in a step, and the gaps between traffic of one dimension and the next.
-- @grain    trace
-- @nvtx     partial
-- @requires collectives
-- @reads    _traffic_dims steps ranks
-- @value    total_window_s
-- @null     no communication event has a duration
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   total_window_s DOUBLE value s lower | Sum of the windows of the dimensions below.
-- @column   dp_window_s DOUBLE value s | Union of the data parallel events that a step launched, summed over the devices of a rank; mean over steps, then ranks. Without steps that of the whole trace (method).
-- @column   tp_window_s DOUBLE value s | Of tensor parallelism.
-- @column   pp_window_s DOUBLE value s | Of pipeline parallelism.
-- @column   ep_window_s DOUBLE value s | Of expert parallelism.
-- @column   cp_window_s DOUBLE value s | Of context parallelism.
-- @column   unknown_window_s DOUBLE value s | Of no known dimension.
-- @column   parallelism_gap LIST value - | Of each transition from one known dimension to another (events of a device in the order of their starts): transition, gaps, mean_us, p50_us, p95_us of next start - previous end, 0 where they overlap.
-- @column   mean_gap_us DOUBLE value us | Mean over all transitions; NULL without any.
-- @column   method VARCHAR value - | steps, or whole_trace.
-- @column   mode VARCHAR value - | What told the dimensions apart: description, card, stride or kernel_name.
-- @caveat   Windows of dimensions that communicate at the same time overlap, so that their sum may exceed the time in which a rank communicates (comm_time_per_step_s). Mode kernel_name knows only all-to-all (ep), send and receive (pp) and reduce-scatter (dp).
-- @source   metrics 2.C traffic_window (both meanings; defect D32: launch steps, dimensions from groups)
WITH
    step_counts AS (
        SELECT trace, rank, count(*) AS step_count
        FROM steps
        GROUP BY trace, rank
    ),

    -- Every rank counts, also one without traffic.
    jobs AS (
        SELECT r.trace, count(DISTINCT r.rank) AS num_ranks, bool_or(s.rank IS NOT NULL) AS has_steps
        FROM ranks AS r
        LEFT JOIN step_counts AS s ON s.trace = r.trace AND s.rank = r.rank
        GROUP BY r.trace
    ),

    events AS (
        SELECT
            d.trace, d.event_id, d.rank, d.device, d.step, d.dim, d.mode, d.ts_ns, d.ts_ns + d.dur_ns AS end_ns,
            j.has_steps, j.num_ranks,
            CASE WHEN j.has_steps THEN s.step_count ELSE 1 END AS step_count
        FROM _traffic_dims AS d
        INNER JOIN jobs AS j ON j.trace = d.trace
        LEFT JOIN step_counts AS s ON s.trace = d.trace AND s.rank = d.rank
        WHERE d.dur_ns IS NOT NULL
    ),

    spans AS (
        SELECT
            trace, rank, dim, step_count, num_ranks,
            interval_union_ns(array_agg({start_ns: ts_ns, end_ns: end_ns})) AS union_ns
        FROM events
        WHERE step IS NOT NULL OR NOT has_steps
        GROUP BY trace, rank, dim, step_count, num_ranks, step, device
    ),

    rank_windows AS (
        SELECT
            trace, rank, dim, num_ranks,
            CAST(sum(union_ns) AS DOUBLE) / step_count / 1e9 AS window_s
        FROM spans
        GROUP BY trace, rank, dim, num_ranks, step_count
    ),

    windows AS (
        SELECT trace, dim, sum(window_s ORDER BY rank) / max(num_ranks) AS window_s
        FROM rank_windows
        GROUP BY trace, dim
    ),

    window_totals AS (
        SELECT
            trace,
            sum(window_s ORDER BY dim) AS total_window_s,
            max(window_s) FILTER (WHERE dim = 'dp') AS dp_window_s,
            max(window_s) FILTER (WHERE dim = 'tp') AS tp_window_s,
            max(window_s) FILTER (WHERE dim = 'pp') AS pp_window_s,
            max(window_s) FILTER (WHERE dim = 'ep') AS ep_window_s,
            max(window_s) FILTER (WHERE dim = 'cp') AS cp_window_s,
            max(window_s) FILTER (WHERE dim = 'unknown') AS unknown_window_s
        FROM windows
        GROUP BY trace
    ),

    followed AS (
        SELECT
            trace, dim, ts_ns,
            lag(dim) OVER device_order AS previous_dim,
            lag(end_ns) OVER device_order AS previous_end_ns
        FROM events
        WINDOW device_order AS (PARTITION BY trace, rank, device ORDER BY ts_ns, end_ns, event_id)
    ),

    gaps AS (
        SELECT
            trace, previous_dim || ' to ' || dim AS transition,
            greatest(ts_ns - previous_end_ns, 0) / 1e3 AS gap_us
        FROM followed
        WHERE previous_dim <> dim AND previous_dim <> 'unknown' AND dim <> 'unknown'
    ),

    transitions AS (
        SELECT
            trace, transition, count(*) AS gap_count, avg(gap_us ORDER BY gap_us) AS mean_us,
            quantile_cont(gap_us, 0.5) AS p50_us, quantile_cont(gap_us, 0.95) AS p95_us
        FROM gaps
        GROUP BY trace, transition
    ),

    transition_lists AS (
        SELECT
            trace,
            array_agg(
                {transition: transition, gaps: gap_count, mean_us: mean_us, p50_us: p50_us, p95_us: p95_us}
                ORDER BY transition
            ) AS parallelism_gap,
            sum(mean_us * gap_count ORDER BY transition) / sum(gap_count) AS mean_gap_us
        FROM transitions
        GROUP BY trace
    ),

    traces_of_events AS (
        SELECT trace, bool_or(has_steps) AS has_steps, max(mode) AS mode
        FROM events
        GROUP BY trace
    ),

    final AS (
        SELECT
            e.trace, w.total_window_s, w.dp_window_s, w.tp_window_s, w.pp_window_s, w.ep_window_s,
            w.cp_window_s, w.unknown_window_s, t.parallelism_gap, t.mean_gap_us,
            CASE WHEN e.has_steps THEN 'steps' ELSE 'whole_trace' END AS method, e.mode
        FROM traces_of_events AS e
        LEFT JOIN window_totals AS w ON w.trace = e.trace
        LEFT JOIN transition_lists AS t ON t.trace = e.trace
    )

SELECT
    trace, total_window_s, dp_window_s, tp_window_s, pp_window_s, ep_window_s, cp_window_s,
    unknown_window_s, parallelism_gap, mean_gap_us, method, mode
FROM final
ORDER BY trace
