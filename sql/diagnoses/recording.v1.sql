-- @diagnosis recording
-- @version  1
-- @summary  The trace was recorded in a way that limits what can be said, or that slows what it
--           shows.
-- @profilers kineto nsys xla
-- @requires ranks
-- @reads    traces trace_findings metadata device_events collectives _account_windows
--           _launch_coverage _match_coverage _match_doubts _windows
-- @param    least_known_ratio DOUBLE 0.9 | Sizes of calls, launches and process groups are said to
--           be missing where less than this share of them is known.
-- @param    few_steps BIGINT 2 | Fewer steps that count are said to be few.
-- @param    ahead_ratio DOUBLE 0.5 | Device work that ends after the last mark is said from this
--           share of a step on.
-- @param    lost_ratio DOUBLE 0.001 | Losses in reading are said from this share of the events on.
-- @gain     none: it is no time of a step that another recording would not have
-- @shown    trace_findings
-- @check    (SELECT count(*) FROM ranks WHERE source IN ('kineto', 'nsys', 'xla')) > 0
--           | no profiler recorded it
-- @source   torch.profiler.profile and schedule, the user guide of Nsight Systems,
--           jax.profiler
WITH
    profilers AS (
        SELECT
            trace,
            CASE
                WHEN bool_or(source = 'kineto') THEN 'kineto'
                WHEN bool_or(source = 'nsys') THEN 'nsys'
                ELSE 'xla'
            END AS profiler,
            bool_or(backend LIKE '%nccl%' OR device_name IS NOT NULL) AS has_accelerator
        FROM ranks
        WHERE source IN ('kineto', 'nsys', 'xla')
        GROUP BY trace
    ),

    windows AS (
        SELECT trace, bool_or(per = 'step') AS has_steps, max(window_count) AS window_count
        FROM (
            SELECT trace, rank, per, count(*) FILTER (WHERE is_counted) AS window_count
            FROM _account_windows
            GROUP BY trace, rank, per
        )
        GROUP BY trace
    ),

    -- How long after the end of its last step the last work of a rank ends, in its steps.
    tails AS (
        SELECT trace, max(late_ms) AS late_ms, max(late_ms / step_ms) AS ratio
        FROM (
            SELECT
                w.trace, w.rank, (any_value(d.end_ns) - max(w.end_ns)) / 1e6 AS late_ms,
                avg(w.end_ns - w.start_ns) FILTER (WHERE w.is_counted) / 1e6 AS step_ms
            FROM _account_windows AS w
            INNER JOIN _windows AS d ON d.trace = w.trace AND d.rank = w.rank
            WHERE w.per = 'step' AND d.basis = 'device'
            GROUP BY w.trace, w.rank
        )
        GROUP BY trace
    ),

    devices AS (
        SELECT
            trace, count(*) AS events, count(*) FILTER (WHERE class = 'graph') AS graphs,
            count(*) FILTER (WHERE class = 'other' AND name IS NULL) AS nameless
        FROM device_events
        GROUP BY trace
    ),

    calls AS (
        SELECT
            trace, count(*) AS events,
            count(*) FILTER (WHERE collective <> 'barrier') AS sizable,
            count(message_bytes) FILTER (WHERE collective <> 'barrier') AS sized,
            count(pg_id) AS grouped
        FROM collectives
        WHERE group_size IS DISTINCT FROM 1
        GROUP BY trace
    ),

    options AS (
        SELECT
            trace, count(DISTINCT rank) FILTER (WHERE key = 'record_shapes') AS shapes,
            count(DISTINCT rank) FILTER (WHERE key = 'with_stack') AS stacks,
            count(DISTINCT rank) FILTER (WHERE key = 'profile_memory') AS memories
        FROM metadata
        WHERE key IN ('record_shapes', 'with_stack', 'profile_memory') AND lower(value) IN ('1', 'true')
        GROUP BY trace
    ),

    losses AS (
        SELECT
            trace, sum(finding_count) AS lost,
            sum(finding_count) FILTER (WHERE code = 'nsys-diagnostic') AS dropped,
            (array_agg(code ORDER BY finding_count DESC, code))[1] AS code
        FROM trace_findings
        WHERE severity IN ('error', 'loss')
        GROUP BY trace
    ),

    listed AS (
        SELECT
            t.trace,
            [
                {
                    what: CASE WHEN NOT coalesce(w.has_steps, FALSE)
                        THEN 'no step is marked' END,
                    how: CASE p.profiler
                        WHEN 'kineto' THEN 'profiler.step() after each iteration'
                        WHEN 'nsys' THEN 'torch.cuda.nvtx.range_push(f"step {i}") and range_pop() around each iteration'
                        ELSE 'jax.profiler.StepTraceAnnotation("train", step_num=i) around each iteration'
                    END
                },
                {
                    what: CASE WHEN w.has_steps AND w.window_count < $few_steps
                        THEN w.window_count || CASE w.window_count WHEN 1 THEN ' step counts' ELSE ' steps count' END END,
                    how: CASE p.profiler
                        WHEN 'kineto' THEN 'schedule=torch.profiler.schedule(wait=1, warmup=2, active=6, repeat=1)'
                        ELSE 'six steps or more, after the first ones'
                    END
                },
                {
                    what: CASE WHEN e.ratio >= $ahead_ratio
                        THEN printf('%.3f ms of work of the devices (%.1f steps) end after the last mark: the host runs ahead of them, and the steps are those of the host', e.late_ms, e.ratio)
                    END,
                    how: 'more steps, and a wait for the devices (torch.cuda.synchronize, block_until_ready) before the first and at the end of the last one'
                },
                {
                    what: CASE WHEN t.rank_count < t.world_size
                        THEN t.rank_count || ' of ' || t.world_size || ' ranks are here'
                            || CASE
                                WHEN coalesce(m.match_coverage_ratio, 0) = 0 THEN ', and no call is matched over them'
                                ELSE ', and calls are matched over these alone'
                            END
                    END,
                    how: CASE p.profiler
                        WHEN 'nsys' THEN 'a report for each rank (nsys profile -o rank%q{RANK})'
                        ELSE 'a file from each rank, of the same steps'
                    END
                },
                {
                    what: doubts.doubts_limit,
                    how: 'the same steps on all ranks, whole files, and a newer PyTorch, whose calls state their group and number'
                },
                {
                    what: CASE WHEN d.events IS NULL AND p.has_accelerator
                        THEN 'nothing of the devices was recorded' END,
                    how: CASE p.profiler
                        WHEN 'nsys' THEN '--trace=cuda,nvtx'
                        ELSE 'activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]'
                    END
                },
                {
                    what: CASE WHEN l.launch_coverage_ratio < $least_known_ratio
                        THEN printf('the launch of %.0f %% of the device events is missing', 100 - 100 * l.launch_coverage_ratio)
                    END,
                    how: CASE p.profiler
                        WHEN 'nsys' THEN '--trace=cuda,nvtx from before the first launch on'
                        ELSE 'activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], and a warm-up in the schedule'
                    END
                },
                {
                    what: CASE WHEN c.sizable > 0 AND c.sized < $least_known_ratio * c.sizable
                        THEN printf('%.0f %% of the communication states no size', 100 - 100.0 * c.sized / c.sizable)
                    END,
                    how: CASE p.profiler
                        WHEN 'kineto' THEN CASE WHEN o.shapes > 0
                            THEN 'a newer PyTorch, whose NCCL kernels state sizes' ELSE 'record_shapes=True' END
                        WHEN 'nsys' THEN '--trace=cuda,nvtx without NCCL_NVTX_DISABLE, and nsys export --type=sqlite --include-blobs=true'
                        ELSE 'the XPlane file (.xplane.pb) with its HLO in place of the trace JSON'
                    END
                },
                {
                    what: CASE WHEN c.events > 0 AND c.grouped < $least_known_ratio * c.events
                        THEN printf('%.0f %% of the communication states no process group', 100 - 100.0 * c.grouped / c.events)
                    END,
                    how: CASE p.profiler
                        WHEN 'kineto' THEN 'init_process_group before the profiler starts, and a newer PyTorch'
                        WHEN 'nsys' THEN 'NCCL 2.25 or newer, and nsys export --include-blobs=true'
                        ELSE 'the XPlane file (.xplane.pb) with its HLO in place of the trace JSON'
                    END
                },
                {
                    what: CASE WHEN d.graphs > 0 THEN 'CUDA graphs were recorded as a whole, without their kernels' END,
                    how: '--cuda-graph-trace=node'
                },
                {
                    what: CASE WHEN d.nameless > 0 THEN 'names of kernels are lost' END,
                    how: 'a file that is whole'
                },
                {
                    what: CASE WHEN o.stacks > 0
                        THEN printf('call stacks were recorded on %d of %d ranks, which slows the host down', o.stacks, t.rank_count)
                    END,
                    how: 'with_stack=False'
                },
                {
                    what: CASE WHEN o.memories > 0
                        THEN printf('each allocation was recorded on %d of %d ranks, which slows the host down', o.memories, t.rank_count)
                    END,
                    how: 'profile_memory=False (memory in a run of its own: torch.cuda.memory._record_memory_history)'
                },
                {
                    what: CASE WHEN s.dropped > 0 OR s.lost >= $lost_ratio * t.event_count
                        THEN printf('events were lost or cut (%s)', s.code) END,
                    how: CASE p.profiler
                        WHEN 'kineto' THEN 'fewer steps, and let the profiler stop before the process ends'
                        WHEN 'nsys' THEN 'a shorter capture (--capture-range=cudaProfilerApi), --flush-on-cudaprofilerstop=true'
                        ELSE 'fewer steps'
                    END
                }
            ] AS items
        FROM traces AS t
        INNER JOIN profilers AS p ON p.trace = t.trace
        LEFT JOIN windows AS w ON w.trace = t.trace
        LEFT JOIN tails AS e ON e.trace = t.trace
        LEFT JOIN devices AS d ON d.trace = t.trace
        LEFT JOIN calls AS c ON c.trace = t.trace
        LEFT JOIN options AS o ON o.trace = t.trace
        LEFT JOIN losses AS s ON s.trace = t.trace
        LEFT JOIN _launch_coverage AS l ON l.trace = t.trace
        LEFT JOIN _match_coverage AS m ON m.trace = t.trace
        LEFT JOIN _match_doubts AS doubts ON doubts.trace = t.trace
    ),

    missing AS (
        SELECT trace, list_filter(items, lambda i: i.what IS NOT NULL) AS items
        FROM listed
    )

SELECT
    trace,
    'the recording limits what can be said: '
        || array_to_string(list_transform(items, lambda i: i.what), '; ') AS finding,
    CAST(NULL AS STRUCT(rank BIGINT)) AS "where",
    CAST(NULL AS DOUBLE) AS time_per_step_ms,
    CAST(NULL AS DOUBLE) AS gain_ms,
    CAST([] AS VARCHAR[]) AS limits,
    'record again with '
        || array_to_string(
            list_transform(
                list_filter(
                    items, lambda i, n: list_position(list_transform(items, lambda j: j.how), i.how) = n
                ), lambda i: i.how
            ), '; '
        ) AS advice,
    'SELECT sources, rank_count, world_size, step_count, comm_library FROM configuration WHERE trace = {trace}'
        AS evidence
FROM missing
WHERE len(items) > 0
