-- @metric   critical_path
-- @version  1
-- @area     launch
-- @summary  What a step takes its time for: the chain of device events, launches, host time and waits that leads to its end, without gap or overlap.
-- @grain    trace
-- @profilers kineto nsys
-- @requires steps device_events launches
-- @reads    _launch_calls host_events host_ranges
-- @value    critical_path_ms
-- @answer   'step ' || step || ' of rank ' || rank
-- @coverage launch_coverage_ratio | launches of the device events in the step looked at are
-- @null     no step of the rank has a duration, or none has the number asked for
-- @check    (SELECT count(*) FROM device_events WHERE source <> 'xla') > 0 | XLA launches whole programs, so that its device events have no launches of their own
-- @param    step BIGINT NULL | Number of the step; without it the middle one of the rank (of an even number the earlier).
-- @param    rank BIGINT NULL | The rank; without it the one whose step, chosen as above, is longest (of equals the one that starts first).
-- @param    gap_us DOUBLE 5 | An event that starts longer than this after the previous one of its stream has ended and its launch has returned waited for another stream: for what ended last there.
-- @param    top BIGINT 10 | How many names by_name lists.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   critical_path_ms DOUBLE value ms lower | From the start of the step on the host to its end there, or to the end of the last device event that it launched, whichever is later: the sum of the segments.
-- @column   rank BIGINT value - | The rank looked at.
-- @column   step BIGINT value - | The step looked at.
-- @column   step_ms DOUBLE value ms lower | The step on the host.
-- @column   ends_on VARCHAR value - | device, where what the step launched ends after it; else host.
-- @column   by_kind_ms MAP value ms lower | Time on the path by kind: compute, comm, copy (sets too), host (between a synchronisation and a launch), launch (from the return of the call to the start), sync (from the end of a device event to the return of the call that waited for it), wait (nothing runs that explains it: between two events).
-- @column   by_name LIST value - | Names on the path with most time: kind, name, segments, time.
-- @column   segments_count BIGINT value count | Segments of the path.
-- @column   segments LIST value - | The path in the order of time: start_ns, dur_ns, kind, name, lane (stream of a device event, thread of the host), device, event_id. They follow each other without gap or overlap.
-- @column   launch_coverage_ratio DOUBLE value ratio | Share of the device events of the rank that end in this time whose launch is known; NULL where there are none.
-- @caveat   What waits for what is inferred from times: an event begins after the previous one of its stream, after its launch, or, where both were long before, after what ended last on another stream; the host waits in synchronising calls alone. A device event that waits for another rank is communication here: see straggler_by_rank.
-- @source   peers critical path (HTA critical_path_analysis: edges between consecutive kernels, from launch to kernel, from device to synchronising call); here walked back from the end, one predecessor for each event, none later in the order of ends
WITH RECURSIVE
    placed AS (
        SELECT
            trace, rank, step, ts_ns AS start_ns, dur_ns,
            row_number() OVER (PARTITION BY trace, rank ORDER BY ts_ns, step) AS place,
            count(*) OVER (PARTITION BY trace, rank) AS step_count
        FROM steps
        WHERE dur_ns > 0 AND ($rank IS NULL OR rank = $rank)
    ),

    chosen AS (
        SELECT trace, rank, step, start_ns, start_ns + dur_ns AS step_end_ns
        FROM placed
        WHERE CASE WHEN $step IS NULL THEN place = (step_count + 1) // 2 ELSE step = $step END
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY dur_ns DESC, start_ns, rank
        ) = 1
    ),

    launched AS (
        SELECT
            l.trace, l.event_id, l.ts_ns + l.dur_ns AS end_ns, l.runtime_event_id, l.launch_ts_ns,
            -- A device may begin before the call returns.
            least(l.launched_ns, l.ts_ns) AS launched_ns,
            l.pid, l.tid,
            l.launch_ts_ns >= c.start_ns AND l.launch_ts_ns < c.step_end_ns AS is_in_step
        FROM _launch_calls AS l
        INNER JOIN chosen AS c ON c.trace = l.trace AND c.rank IS NOT DISTINCT FROM l.rank
        WHERE l.ts_ns + l.dur_ns > c.start_ns AND l.launch_ts_ns < c.step_end_ns
    ),

    device_ends AS (
        SELECT trace, max(end_ns) AS end_ns
        FROM launched
        WHERE is_in_step
        GROUP BY trace
    ),

    bounds AS (
        SELECT
            c.trace, c.rank, c.step, c.start_ns, c.step_end_ns,
            greatest(c.step_end_ns, coalesce(d.end_ns, c.step_end_ns)) AS end_ns
        FROM chosen AS c
        LEFT JOIN device_ends AS d ON d.trace = c.trace
    ),

    events AS (
        SELECT
            d.trace, d.event_id, d.class, d.name, d.device, d.stream, d.ts_ns,
            d.ts_ns + d.dur_ns AS end_ns, d.dur_ns = 0 AS is_point,
            l.launched_ns, l.runtime_event_id, l.pid, l.tid, coalesce(l.is_in_step, FALSE) AS is_in_step
        FROM device_events AS d
        INNER JOIN bounds AS b ON b.trace = d.trace AND b.rank IS NOT DISTINCT FROM d.rank
        LEFT JOIN launched AS l ON l.trace = d.trace AND l.event_id = d.event_id
        WHERE d.class IN ('comm', 'compute', 'copy', 'set', 'graph')
            AND d.dur_ns IS NOT NULL
            AND d.ts_ns + d.dur_ns > b.start_ns
            AND d.ts_ns + d.dur_ns <= b.end_ns
    ),

    coverage AS (
        SELECT e.trace, CAST(count(l.event_id) AS DOUBLE) / count(*) AS launch_coverage_ratio
        FROM events AS e
        LEFT JOIN launches AS l
            ON l.trace = e.trace AND l.event_id = e.event_id AND l.launch_ts_ns IS NOT NULL
        GROUP BY e.trace
    ),

    calls AS (
        SELECT
            h.trace, h.event_id, h.name, h.pid, h.tid, h.ts_ns, h.ts_ns + h.dur_ns AS end_ns,
            h.name LIKE '%StreamSynchronize%'
                OR h.name LIKE '%DeviceSynchronize%'
                OR h.name LIKE '%CtxSynchronize%'
                OR h.name LIKE '%EventSynchronize%'
                OR h.name IN ('cudaMemcpy', 'cudaMemcpy2D', 'hipMemcpy', 'hipMemcpyWithStream')
                OR h.name LIKE 'cudaMemcpy\_v%' ESCAPE '\'
                OR h.name LIKE 'cuMemcpyDtoH\_v%' ESCAPE '\'
                AS is_blocking
        FROM host_events AS h
        INNER JOIN bounds AS b ON b.trace = h.trace AND b.rank IS NOT DISTINCT FROM h.rank
        WHERE h.class = 'host_runtime'
            AND h.ts_ns + h.dur_ns > b.start_ns
            AND h.ts_ns + h.dur_ns <= b.end_ns
    ),

    -- Ends and starts of device events and returns of blocking calls in one strict order: ends
    -- first, then events without duration one after the other, then starts, then calls. Each event
    -- is preceded by one that is earlier in this order, so that no walk returns.
    marks AS (
        SELECT
            trace, device, stream, event_id, end_ns AS at_ns, 'end' AS mark,
            CASE WHEN is_point THEN 1 ELSE 0 END AS phase, 1 AS part
        FROM events
        UNION ALL
        SELECT
            trace, device, stream, event_id, ts_ns, 'start',
            CASE WHEN is_point THEN 1 ELSE 2 END, 0
        FROM events
        UNION ALL
        SELECT trace, NULL, NULL, event_id, end_ns, 'call', 3, 0
        FROM calls
        WHERE is_blocking
    ),

    ordered AS (
        SELECT
            trace, device, stream, event_id, at_ns, mark,
            row_number() OVER (PARTITION BY trace ORDER BY at_ns, phase, event_id, part) AS pos
        FROM marks
    ),

    -- What has ended last before each mark: on its stream, and anywhere.
    before AS (
        SELECT
            trace, event_id, mark, pos,
            max(CASE WHEN mark = 'end' THEN pos END) OVER on_stream AS stream_pos,
            max(CASE WHEN mark = 'end' THEN at_ns END) OVER on_stream AS stream_ns,
            max(CASE WHEN mark = 'end' THEN pos END) OVER anywhere AS any_pos,
            max(CASE WHEN mark = 'end' THEN at_ns END) OVER anywhere AS any_ns
        FROM ordered
        WINDOW
            on_stream AS (
                PARTITION BY trace, device, stream ORDER BY pos
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            anywhere AS (
                PARTITION BY trace ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
    ),

    -- Calls in which the host waited: a device event ended while they ran.
    syncs AS (
        SELECT
            c.trace, c.event_id, c.name, c.pid, c.tid, c.end_ns,
            b.any_pos AS device_pos, b.any_ns AS device_ns
        FROM calls AS c
        INNER JOIN before AS b
            ON b.trace = c.trace AND b.event_id = c.event_id AND b.mark = 'call'
        WHERE c.is_blocking AND b.any_ns > c.ts_ns
    ),

    -- The thread of the step: that of its marker, else the one that calls most.
    marker_threads AS (
        SELECT b.trace, r.pid, r.tid
        FROM bounds AS b
        INNER JOIN host_ranges AS r
            ON r.trace = b.trace
            AND r.rank IS NOT DISTINCT FROM b.rank
            AND r.ts_ns = b.start_ns
            AND r.ts_ns + r.dur_ns = b.step_end_ns
        WHERE r.kind = 'annotation'
        QUALIFY row_number() OVER (PARTITION BY b.trace ORDER BY r.event_id) = 1
    ),

    threads AS (
        SELECT
            c.trace, c.pid, c.tid, min(c.ts_ns) AS first_ns,
            row_number() OVER (
                PARTITION BY c.trace ORDER BY count(m.trace) DESC, count(*) DESC, c.pid, c.tid
            ) = 1 AS is_main
        FROM calls AS c
        LEFT JOIN marker_threads AS m
            ON m.trace = c.trace
            AND m.pid IS NOT DISTINCT FROM c.pid
            AND m.tid IS NOT DISTINCT FROM c.tid
        GROUP BY c.trace, c.pid, c.tid
    ),

    -- Keys of threads, so that a missing number is one too.
    thread_syncs AS (
        SELECT
            s.trace, concat_ws(':', coalesce(s.pid, -1), coalesce(s.tid, -1)) AS thread,
            s.event_id, s.name, s.tid, s.end_ns, s.device_pos, s.device_ns
        FROM syncs AS s
        QUALIFY row_number() OVER (
            PARTITION BY s.trace, s.pid, s.tid, s.end_ns ORDER BY s.event_id DESC
        ) = 1
    ),

    main_syncs AS (
        SELECT s.trace, s.event_id, s.name, s.end_ns, s.device_pos, s.device_ns
        FROM thread_syncs AS s
        INNER JOIN threads AS t
            ON t.trace = s.trace
            AND concat_ws(':', coalesce(t.pid, -1), coalesce(t.tid, -1)) = s.thread
        WHERE t.is_main
    ),

    -- A thread that is not the main one was started by it: what the main one waited for before the
    -- first call of the other is what the other waited for.
    inherited AS (
        SELECT
            t.trace, concat_ws(':', coalesce(t.pid, -1), coalesce(t.tid, -1)) AS thread,
            m.event_id, m.name, m.end_ns, m.device_pos, m.device_ns
        FROM threads AS t
        ASOF INNER JOIN main_syncs AS m ON m.trace = t.trace AND m.end_ns < t.first_ns
        WHERE NOT t.is_main
    ),

    placed_events AS (
        SELECT
            e.trace, e.event_id, e.class, e.name, e.device, e.stream, e.ts_ns, e.end_ns, e.is_in_step,
            e.launched_ns, e.runtime_event_id, e.tid,
            concat_ws(':', coalesce(e.pid, -1), coalesce(e.tid, -1)) AS thread,
            o.pos, s.stream_pos, s.stream_ns, s.any_pos, s.any_ns,
            greatest(
                coalesce(s.stream_ns, b.start_ns), coalesce(e.launched_ns, b.start_ns), b.start_ns
            ) AS ready_ns,
            b.start_ns AS step_ns
        FROM events AS e
        INNER JOIN bounds AS b ON b.trace = e.trace
        INNER JOIN ordered AS o
            ON o.trace = e.trace AND o.event_id = e.event_id AND o.mark = 'end'
        INNER JOIN before AS s
            ON s.trace = e.trace AND s.event_id = e.event_id AND s.mark = 'start'
    ),

    explained AS (
        SELECT
            trace, event_id, class, name, device, stream, ts_ns, end_ns, is_in_step, launched_ns,
            runtime_event_id, tid, thread, pos, stream_pos, stream_ns, any_pos, any_ns,
            CASE
                WHEN any_ns > ready_ns AND ts_ns - ready_ns > 1e3 * $gap_us THEN 'other'
                WHEN launched_ns > step_ns AND launched_ns > coalesce(stream_ns, step_ns)
                    THEN 'launch'
                WHEN stream_pos IS NOT NULL THEN 'stream'
                ELSE 'none'
            END AS cause,
            lag(pos) OVER (PARTITION BY trace, device, stream ORDER BY pos) AS previous_pos
        FROM placed_events
    ),

    -- The last call in which the launching thread waited before the launch.
    waited AS (
        SELECT
            e.trace, e.event_id, s.event_id AS sync_event_id, s.name AS sync_name,
            s.end_ns AS sync_end_ns, s.device_pos, s.device_ns
        FROM explained AS e
        ASOF INNER JOIN thread_syncs AS s
            ON s.trace = e.trace AND s.thread = e.thread AND s.end_ns < e.launched_ns
        WHERE e.cause = 'launch'
    ),

    -- Events that follow each other on a stream are a run; its first one says what came before.
    headed AS (
        SELECT
            e.trace, e.event_id, e.class, e.name, e.device, e.stream, e.ts_ns, e.end_ns, e.is_in_step,
            e.launched_ns, e.runtime_event_id, e.tid, e.pos, e.stream_ns, e.cause, e.any_ns,
            coalesce(w.sync_event_id, i.event_id) AS sync_event_id,
            coalesce(w.sync_name, i.name) AS sync_name,
            coalesce(w.sync_end_ns, i.end_ns) AS sync_end_ns,
            coalesce(w.device_ns, i.device_ns) AS device_ns,
            CASE e.cause
                WHEN 'other' THEN e.any_pos
                WHEN 'stream' THEN e.stream_pos
                WHEN 'launch' THEN coalesce(w.device_pos, i.device_pos)
            END AS before_pos,
            NOT (e.cause = 'stream' AND e.stream_pos = e.previous_pos) AS is_head
        FROM explained AS e
        LEFT JOIN waited AS w ON w.trace = e.trace AND w.event_id = e.event_id
        LEFT JOIN inherited AS i
            ON i.trace = e.trace
            AND i.thread = e.thread
            AND i.end_ns < e.launched_ns
            AND e.cause = 'launch'
    ),

    runs AS (
        SELECT
            trace, event_id, class, name, device, stream, ts_ns, end_ns, is_in_step, launched_ns,
            runtime_event_id, tid, pos, stream_ns, cause, any_ns, sync_event_id, sync_name,
            sync_end_ns, device_ns, before_pos, is_head,
            max(CASE WHEN is_head THEN pos END) OVER (
                PARTITION BY trace, device, stream ORDER BY pos
            ) AS head_pos
        FROM headed
    ),

    -- Where the walk begins: with the last device event of the step, or with the host at its end.
    last_events AS (
        SELECT r.trace, max(r.pos) AS pos
        FROM runs AS r
        INNER JOIN bounds AS b ON b.trace = r.trace
        WHERE r.is_in_step AND r.end_ns = b.end_ns AND b.end_ns > b.step_end_ns
        GROUP BY r.trace
    ),

    last_syncs AS (
        SELECT b.trace, m.event_id, m.name, m.end_ns, m.device_pos, m.device_ns
        FROM bounds AS b
        ASOF INNER JOIN main_syncs AS m ON m.trace = b.trace AND m.end_ns <= b.step_end_ns
        WHERE b.end_ns = b.step_end_ns
    ),

    roots AS (
        SELECT trace, pos
        FROM last_events
        UNION ALL
        SELECT trace, device_pos
        FROM last_syncs
    ),

    exits AS (
        SELECT r.trace, r.pos, r.head_pos, h.before_pos
        FROM runs AS r
        INNER JOIN runs AS h ON h.trace = r.trace AND h.pos = r.head_pos
    ),

    -- Only where a run may be entered.
    doors AS (
        SELECT trace, pos
        FROM roots
        UNION
        SELECT trace, before_pos
        FROM exits
        WHERE before_pos IS NOT NULL
    ),

    hops AS (
        SELECT e.trace, e.pos, e.head_pos, e.before_pos, r.pos IS NOT NULL AS is_passed
        FROM exits AS e
        INNER JOIN doors AS d ON d.trace = e.trace AND d.pos = e.pos
        LEFT JOIN roots AS r ON r.trace = e.trace AND r.pos = e.pos
    ),

    -- The walk, doubled: after n rounds the first 2^n doors of it are passed, and each door knows
    -- the one 2^n further on. A walk of thousands of hops takes a dozen rounds.
    walk AS (
        SELECT trace, pos, head_pos, before_pos, is_passed, 0 AS round
        FROM hops
        UNION ALL
        SELECT
            w.trace, w.pos, w.head_pos, n.before_pos, w.is_passed OR p.pos IS NOT NULL, w.round + 1
        FROM walk AS w
        INNER JOIN (
            SELECT DISTINCT trace
            FROM walk
            WHERE is_passed AND before_pos IS NOT NULL
        ) AS t ON t.trace = w.trace
        LEFT JOIN walk AS n ON n.trace = w.trace AND n.pos = w.before_pos
        LEFT JOIN (
            SELECT DISTINCT trace, before_pos AS pos
            FROM walk
            WHERE is_passed
        ) AS p ON p.trace = w.trace AND p.pos = w.pos
    ),

    path AS (
        SELECT DISTINCT trace, pos, head_pos
        FROM walk
        WHERE is_passed
    ),

    -- The events of the path: of each run what comes no later than where it is entered.
    passed AS (
        SELECT
            r.trace, r.event_id, r.class, r.name, r.device, r.stream, r.ts_ns, r.end_ns,
            r.launched_ns, r.runtime_event_id, r.tid, r.stream_ns, r.any_ns, r.cause, r.sync_event_id,
            r.sync_name, r.sync_end_ns, r.device_ns
        FROM path AS p
        INNER JOIN runs AS r ON r.trace = p.trace AND r.head_pos = p.head_pos AND r.pos <= p.pos
    ),

    pieces AS (
        SELECT
            trace, ts_ns AS start_ns, end_ns,
            CASE class WHEN 'set' THEN 'copy' WHEN 'graph' THEN 'compute' ELSE class END AS kind,
            name, stream AS lane, device, event_id
        FROM passed
        UNION ALL
        -- What lies before an event: up to the other event, the launch, or the start of the step.
        SELECT
            p.trace,
            CASE p.cause
                WHEN 'stream' THEN p.stream_ns
                WHEN 'other' THEN p.any_ns
                WHEN 'launch' THEN p.launched_ns
                ELSE b.start_ns
            END,
            p.ts_ns,
            CASE p.cause WHEN 'launch' THEN 'launch' ELSE 'wait' END,
            p.name, p.stream, p.device, p.event_id
        FROM passed AS p
        INNER JOIN bounds AS b ON b.trace = p.trace
        UNION ALL
        SELECT
            p.trace, coalesce(p.sync_end_ns, b.start_ns), p.launched_ns, 'host',
            CAST(NULL AS VARCHAR), p.tid, NULL, p.runtime_event_id
        FROM passed AS p
        INNER JOIN bounds AS b ON b.trace = p.trace
        WHERE p.cause = 'launch'
        UNION ALL
        SELECT trace, device_ns, sync_end_ns, 'sync', sync_name, tid, NULL, sync_event_id
        FROM passed
        WHERE cause = 'launch' AND sync_end_ns IS NOT NULL
        UNION ALL
        -- The host at the end of the step.
        SELECT
            b.trace, coalesce(s.end_ns, b.start_ns), b.step_end_ns, 'host', NULL, t.tid, NULL, NULL
        FROM bounds AS b
        LEFT JOIN last_syncs AS s ON s.trace = b.trace
        LEFT JOIN threads AS t ON t.trace = b.trace AND t.is_main
        WHERE b.end_ns = b.step_end_ns
        UNION ALL
        SELECT s.trace, s.device_ns, s.end_ns, 'sync', s.name, t.tid, NULL, s.event_id
        FROM last_syncs AS s
        LEFT JOIN threads AS t ON t.trace = s.trace AND t.is_main
    ),

    segments AS (
        SELECT
            p.trace, greatest(p.start_ns, b.start_ns) AS start_ns,
            p.end_ns - greatest(p.start_ns, b.start_ns) AS dur_ns,
            p.kind, p.name, p.lane, p.device, p.event_id
        FROM pieces AS p
        INNER JOIN bounds AS b ON b.trace = p.trace
        WHERE p.end_ns > greatest(p.start_ns, b.start_ns)
    ),

    segment_lists AS (
        SELECT
            trace,
            TRY_CAST(sum(dur_ns) AS BIGINT) AS dur_ns,
            count(*) AS segments_count,
            array_agg({
                start_ns: start_ns, dur_ns: dur_ns, kind: kind, name: name, lane: lane,
                device: device, event_id: event_id
            } ORDER BY start_ns) AS segments
        FROM segments
        GROUP BY trace
    ),

    kinds AS (
        SELECT trace, kind, sum(dur_ns) / 1e6 AS time_ms
        FROM segments
        GROUP BY trace, kind
    ),

    kind_maps AS (
        SELECT
            trace,
            map(array_agg(kind ORDER BY kind), array_agg(time_ms ORDER BY kind)) AS by_kind_ms
        FROM kinds
        GROUP BY trace
    ),

    names AS (
        SELECT trace, kind, name, count(*) AS segments, sum(dur_ns) AS dur_ns
        FROM segments
        WHERE name IS NOT NULL
        GROUP BY trace, kind, name
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY sum(dur_ns) DESC, kind, name
        ) <= $top
    ),

    name_lists AS (
        SELECT
            trace,
            array_agg({
                kind: kind, name: name, segments: segments, time_ms: dur_ns / 1e6
            } ORDER BY dur_ns DESC, kind, name) AS by_name
        FROM names
        GROUP BY trace
    ),

    final AS (
        SELECT
            b.trace, s.dur_ns / 1e6 AS critical_path_ms, b.rank, b.step,
            (b.step_end_ns - b.start_ns) / 1e6 AS step_ms,
            CASE WHEN b.end_ns > b.step_end_ns THEN 'device' ELSE 'host' END AS ends_on,
            k.by_kind_ms, coalesce(n.by_name, []) AS by_name, s.segments_count, s.segments,
            c.launch_coverage_ratio
        FROM bounds AS b
        INNER JOIN segment_lists AS s ON s.trace = b.trace
        INNER JOIN kind_maps AS k ON k.trace = b.trace
        LEFT JOIN name_lists AS n ON n.trace = b.trace
        LEFT JOIN coverage AS c ON c.trace = b.trace
    )

SELECT
    trace, critical_path_ms, rank, step, step_ms, ends_on, by_kind_ms, by_name, segments_count,
    segments, launch_coverage_ratio
FROM final
ORDER BY trace
