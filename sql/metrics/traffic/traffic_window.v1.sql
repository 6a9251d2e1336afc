-- @metric   traffic_window
-- @version  1
-- @area     traffic
-- @summary  Communication time of each parallel dimension in a step, and the gaps between traffic
--           of one dimension and the next.
-- @grain    trace
-- @nvtx     partial
-- @requires collectives
-- @reads    _traffic_dims _comm_launches _comm_ranks steps _comm_coverage
-- @value    total_window_s
-- @coverage launch_coverage_ratio | launches of communication, by the time that it takes, are
-- @check    (SELECT count(dur_ns) FROM collectives) > 0 | no communication event has a duration
-- @check    (SELECT count(*) FROM steps) = 0 OR (SELECT count(*) FROM collectives) = 0 OR (SELECT
--           sum(launched_calls) FROM _comm_launches) > 0
--           | of no communication event is the launch known, and with it the step
-- @check    (SELECT count(*) FROM steps) = 0 OR (SELECT count(step) FROM collectives) > 0
--           | no step launched communication
-- @null     no communication event that a step launched has a duration
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   total_window_s DOUBLE value s lower | Sum of the windows of the dimensions below.
-- @column   dp_window_s DOUBLE value s | Union of the data parallel events that a step launched,
--           summed over the devices of a rank; mean over the steps of a rank, then over the ranks
--           with steps. Without steps that of the whole trace, mean over the ranks that have a
--           window (method). 0 without such events, of a rank and in all; NULL where no dimension
--           was told apart.
-- @column   tp_window_s DOUBLE value s | Of tensor parallelism.
-- @column   pp_window_s DOUBLE value s | Of pipeline parallelism.
-- @column   ep_window_s DOUBLE value s | Of expert parallelism.
-- @column   cp_window_s DOUBLE value s | Of context parallelism.
-- @column   unknown_window_s DOUBLE value s | Of no known dimension.
-- @column   parallelism_gap LIST value - | Of each transition from one known dimension to another
--           (events of a device in the order of their starts): transition, gaps, mean_us, p50_us,
--           p95_us of the start of an event - the end of the one that started before it (which an
--           earlier one may outlast), 0 where they overlap.
-- @column   mean_gap_us DOUBLE value us | Mean over all transitions; NULL without any.
-- @column   method VARCHAR value - | steps, or whole_trace.
-- @column   mode VARCHAR value - | What told the dimensions apart: description (of the groups),
--           range (ranges named dp, tp, pp, ep or cp around the calls), card, stride or
--           kernel_name.
-- @column   launch_coverage_ratio DOUBLE value ratio | Share of the communication time (sum of
--           durations) whose launch, and so whose step, is known; NULL without steps.
-- @caveat   Windows of dimensions that communicate at the same time overlap, so that their sum may
--           exceed the time in which a rank communicates (comm_time_per_step_s).
-- @warn     mode = 'stride'
--           | nothing names the dimensions: groups of neighbouring ranks are taken as tensor
--           parallel, the others as data parallel
-- @warn     mode = 'kernel_name'
--           | nothing names the dimensions: all-to-all is taken as expert, send and receive as
--           pipeline, reduce-scatter as data parallel; all else is unknown
-- @source   metrics 2.C traffic_window (both meanings; defect D32: launch steps, dimensions from
--           groups)
WITH
    events AS (
        SELECT
            d.trace, d.event_id, d.rank, d.device, d.step, d.dim, d.mode, d.ts_ns, d.ts_ns + d.dur_ns AS end_ns,
            r.has_steps, r.step_ranks, r.step_count
        FROM _traffic_dims AS d
        INNER JOIN _comm_ranks AS r ON r.trace = d.trace AND r.rank = d.rank
        WHERE d.dur_ns IS NOT NULL
    ),

    spans AS (
        SELECT
            trace, rank, dim, step_count, step_ranks,
            interval_union_ns(array_agg({start_ns: ts_ns, end_ns: end_ns})) AS union_ns
        FROM events
        WHERE step IS NOT NULL OR NOT has_steps
        GROUP BY trace, rank, dim, step_count, step_ranks, step, device
    ),

    rank_windows AS (
        SELECT
            trace, rank, dim, step_ranks,
            CAST(sum(union_ns) AS DOUBLE) / step_count / 1e9 AS window_s
        FROM spans
        GROUP BY trace, rank, dim, step_ranks, step_count
    ),

    windows AS (
        SELECT trace, dim, sum(window_s ORDER BY rank) / max(step_ranks) AS window_s
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
        SELECT
            trace, bool_or(has_steps) AS has_steps, max(mode) AS mode, bool_or(dim <> 'unknown') AS dims_known
        FROM events
        GROUP BY trace
    )

SELECT
    e.trace, w.total_window_s,
    CASE WHEN e.dims_known THEN coalesce(w.dp_window_s, 0) END AS dp_window_s,
    CASE WHEN e.dims_known THEN coalesce(w.tp_window_s, 0) END AS tp_window_s,
    CASE WHEN e.dims_known THEN coalesce(w.pp_window_s, 0) END AS pp_window_s,
    CASE WHEN e.dims_known THEN coalesce(w.ep_window_s, 0) END AS ep_window_s,
    CASE WHEN e.dims_known THEN coalesce(w.cp_window_s, 0) END AS cp_window_s,
    coalesce(w.unknown_window_s, 0) AS unknown_window_s,
    t.parallelism_gap, t.mean_gap_us,
    CASE WHEN e.has_steps THEN 'steps' ELSE 'whole_trace' END AS method, e.mode,
    CASE WHEN e.has_steps THEN c.launch_coverage_ratio END AS launch_coverage_ratio
FROM traces_of_events AS e
LEFT JOIN window_totals AS w ON w.trace = e.trace
LEFT JOIN transition_lists AS t ON t.trace = e.trace
LEFT JOIN _comm_coverage AS c ON c.trace = e.trace
ORDER BY e.trace
