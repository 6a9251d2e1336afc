-- @metric   critical_path
-- @version  1
-- @area     devices
-- @summary  What a step takes its time for: the chain of device events, launches, host time and
--           waits that leads to its end, over all ranks, without gap or overlap.
-- @grain    trace
-- @profilers kineto nsys
-- @requires steps device_events launches
-- @reads    _clock_shifts _runtime_calls _step_threads _wait_causes _waits _device_counts
--           _longest_events
-- @value    critical_path_ms
-- @answer   'rank ' || rank || ', ' || reason || ' (step ' || step || ')'
-- @coverage launch_coverage_ratio | launches of the device events in the step looked at are
-- @warn     clock_aligned
--           | the clocks of the ranks differ: their offsets (clock_offsets) are taken away; -p
--           align=false compares the clocks as recorded
-- @null     no step of the rank has a duration, or none has the number asked for
-- @check    (SELECT count(*) FROM _device_counts WHERE source <> 'xla') > 0
--           | XLA launches whole programs, so that its device events have no launches of their own
-- @param    step BIGINT NULL | Number of the step; without it the middle one of the rank (of an
--           even number the earlier).
-- @param    rank BIGINT NULL | The rank on which the path ends; without it the one whose step,
--           chosen as above, is longest (of equals the one that starts first).
-- @param    gap_us DOUBLE 5 | An event that starts longer than this after the previous one of its
--           stream has ended and its launch has returned waited for another stream: for what ended
--           last there. A call whose last rank comes longer than this after the own one waited for
--           that rank.
-- @param    top BIGINT 10 | How many names by_name lists.
-- @param    align BOOLEAN NULL | Take the offsets of the clocks (clock_offsets) from the times of
--           the ranks before they are compared: true or false; without it where an offset exceeds
--           both its uncertainty and the median lag of the calls.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   critical_path_ms DOUBLE value ms lower | The sum of the segments: all of step_ms.
-- @column   rank BIGINT value - | The rank on which the path spends most time (the lowest of
--           equals); time of a victim, which is late mostly because it waited for another, is that
--           of its cause.
-- @column   rank_pct DOUBLE value pct | How much of the path is on that rank and its victims.
-- @column   reason VARCHAR value - | The kind of segment that takes most of the path on that rank
--           itself.
-- @column   end_rank BIGINT value - | The rank on which the path ends: the one whose step is looked
--           at.
-- @column   step BIGINT value - | The step looked at.
-- @column   step_ms DOUBLE value ms lower | The step: from its start on the host, or the end of
--           what was launched before it where that is later, to its end on the host, or the end of
--           what it launched where that is later.
-- @column   ends_on VARCHAR value - | device, where what the step launched ends after it; else
--           host.
-- @column   by_rank LIST value - | Of each rank on the path, the one with most time first: rank,
--           cause_rank (of a victim), time_ms, reason, and time by kind.
-- @column   by_kind_ms MAP value ms lower | Time on the path by kind: compute, comm, copy (sets
--           too), host (between a synchronisation and a launch), launch (from the return of the
--           call to the start), sync (from the end of a device event to the return of the call that
--           waited for it), wait (nothing runs that explains it: between two events).
-- @column   by_name LIST value - | Names on the path with most time: kind, name, segments, time.
-- @column   segments_count BIGINT value count | Segments of the path.
-- @column   segments LIST value - | The path in the order of time: start_ns (by the clock of
--           end_rank, see align), dur_ns, kind, name, rank, lane (stream of a device event, thread
--           of the host), device, event_id. They follow each other without gap or overlap.
-- @column   clock_aligned BOOLEAN value - | Whether the offsets of the clocks were taken away: see
--           the parameter align.
-- @column   launch_coverage_ratio DOUBLE value ratio | Share of the device events that end in this
--           time whose launch is known; NULL where there are none.
-- @caveat   What waits for what is inferred from times: a matched call goes on when its last rank
--           has come, and the path with that rank; any other event begins after the previous one of
--           its stream, after its launch, or, where both were long before, after what ended last on
--           another stream; the host waits in synchronising calls, and in copies that end before
--           their call returns, alone. A call that was matched with no other rank is communication
--           of its own.
-- @source   peers critical path (HTA critical_path_analysis: edges between consecutive kernels,
--           from launch to kernel, from device to synchronising call); here walked back from the
--           end, one predecessor for each event, none later in the order of ends; over ranks as
--           Böhme and others 2012, Scalable critical-path based performance analysis
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

    -- What was launched before the step may still run in it, and is of the step before.
    device_ends AS (
        SELECT
            l.trace,
            max(d.ts_ns + d.dur_ns) FILTER (WHERE l.launch_ts_ns >= c.start_ns) AS end_ns,
            max(d.ts_ns + d.dur_ns) FILTER (WHERE l.launch_ts_ns < c.start_ns) AS before_ns
        FROM launches AS l
        INNER JOIN chosen AS c ON c.trace = l.trace AND c.rank = l.rank
        INNER JOIN device_events AS d
            ON d.trace = l.trace AND d.rank = l.rank AND d.event_id = l.event_id
        WHERE l.launch_ts_ns < c.step_end_ns
            AND d.class IN ('comm', 'compute', 'copy', 'set', 'graph')
            AND d.source <> 'xla'
        GROUP BY l.trace
    ),

    ends AS (
        SELECT
            c.trace, c.rank AS end_rank, c.step, c.start_ns, c.step_end_ns,
            d.before_ns, greatest(c.step_end_ns, d.end_ns) AS end_ns
        FROM chosen AS c
        LEFT JOIN device_ends AS d ON d.trace = c.trace
    ),

    bounds AS (
        SELECT
            trace, end_rank, step, step_end_ns, end_ns,
            CASE WHEN before_ns < end_ns THEN greatest(start_ns, before_ns) ELSE start_ns END
                AS start_ns
        FROM ends
    ),

    -- All times are told by the clock of the rank on which the path ends.
    clocks AS (
        SELECT o.trace, o.rank, o.aligned, o.shift_ns - e.shift_ns AS shift_ns
        FROM _clock_shifts AS o
        INNER JOIN bounds AS b ON b.trace = o.trace
        INNER JOIN _clock_shifts AS e
            ON e.trace = o.trace AND e.rank = b.end_rank AND e.aligned = o.aligned
        WHERE o.aligned = coalesce($align, o.by_itself)
    ),

    -- The time looked at by the clock of each rank, and when the earliest of what overlaps it may
    -- begin: so the rest of the trace is neither held nor read.
    spans AS (
        SELECT
            k.trace, k.rank, k.shift_ns,
            b.start_ns + k.shift_ns AS start_ns,
            b.end_ns + k.shift_ns AS end_ns,
            b.start_ns + k.shift_ns - l.device_ns AS device_from_ns,
            b.start_ns + k.shift_ns - l.call_ns AS call_from_ns
        FROM clocks AS k
        INNER JOIN bounds AS b ON b.trace = k.trace
        INNER JOIN _longest_events AS l ON l.trace = k.trace AND l.rank = k.rank
    ),

    -- What runs on the devices in this time, how it was launched, and the calls that launched it.
    near AS MATERIALIZED (
        SELECT
            d.trace, s.rank, s.shift_ns, d.source, d.event_id, d.class, d.name, d.device, d.stream,
            d.ts_ns, d.dur_ns
        FROM device_events AS d
        INNER JOIN spans AS s
            ON s.trace = d.trace
            AND s.rank = d.rank
            AND d.ts_ns >= s.device_from_ns
            AND d.ts_ns <= s.end_ns
        WHERE d.class IN ('comm', 'compute', 'copy', 'set', 'graph')
            AND d.ts_ns + d.dur_ns > s.start_ns
    ),

    links AS MATERIALIZED (
        SELECT l.trace, l.event_id, l.runtime_event_id, l.launch_ts_ns, l.pid, l.tid
        FROM launches AS l
        SEMI JOIN near AS n ON n.trace = l.trace AND n.event_id = l.event_id
        WHERE l.launch_ts_ns IS NOT NULL
    ),

    callers AS MATERIALIZED (
        SELECT c.trace, c.event_id, c.end_ns - c.ts_ns AS dur_ns
        FROM _runtime_calls AS c
        SEMI JOIN links AS l
            ON l.trace = c.trace AND l.runtime_event_id = c.event_id AND l.launch_ts_ns = c.ts_ns
    ),

    linked AS (
        SELECT
            n.trace, n.rank, n.shift_ns, n.event_id, n.class, n.ts_ns, n.ts_ns + n.dur_ns AS end_ns,
            l.runtime_event_id, l.launch_ts_ns, l.pid, l.tid,
            l.launch_ts_ns + coalesce(c.dur_ns, 0) AS launched_ns
        FROM near AS n
        INNER JOIN links AS l ON l.trace = n.trace AND l.event_id = n.event_id
        LEFT JOIN callers AS c ON c.trace = l.trace AND c.event_id = l.runtime_event_id
        WHERE n.source <> 'xla'
    ),

    launched AS (
        SELECT
            l.trace, l.event_id, l.runtime_event_id,
            l.launch_ts_ns - l.shift_ns AS launch_ts_ns,
            -- A device may begin before the call returns; by its clock, which may differ from that
            -- of the host, even before the call begins. A copy that ends before its call returns is
            -- what the call waited for.
            least(
                CASE WHEN l.class = 'copy' AND l.end_ns <= l.launched_ns
                    THEN l.launch_ts_ns
                    ELSE l.launched_ns
                END,
                l.ts_ns
            ) - l.shift_ns AS launched_ns,
            l.pid, l.tid
        FROM linked AS l
    ),

    events AS (
        SELECT
            n.trace, n.rank, n.event_id, n.class, n.name, n.device, n.stream,
            n.ts_ns - n.shift_ns AS ts_ns, n.ts_ns + n.dur_ns - n.shift_ns AS end_ns,
            n.dur_ns = 0 AS is_point, l.launched_ns, l.runtime_event_id, l.pid, l.tid,
            l.launch_ts_ns < b.step_end_ns AND n.rank = b.end_rank AS is_in_step
        FROM near AS n
        INNER JOIN bounds AS b ON b.trace = n.trace
        LEFT JOIN launched AS l ON l.trace = n.trace AND l.event_id = n.event_id
    ),

    coverage AS (
        SELECT e.trace, CAST(count(l.event_id) AS DOUBLE) / count(*) AS launch_coverage_ratio
        FROM events AS e
        INNER JOIN bounds AS b ON b.trace = e.trace AND e.end_ns <= b.end_ns
        LEFT JOIN links AS l ON l.trace = e.trace AND l.event_id = e.event_id
        GROUP BY e.trace
    ),

    -- Calls that waited for a copy: it ended before they returned.
    copy_waits AS (
        SELECT DISTINCT trace, runtime_event_id
        FROM linked
        WHERE class = 'copy' AND end_ns <= launched_ns
    ),

    calls AS (
        SELECT
            c.trace, s.rank, c.event_id, c.name, c.pid, c.tid, c.ts_ns - s.shift_ns AS ts_ns,
            c.end_ns - s.shift_ns AS end_ns,
            c.waits OR w.runtime_event_id IS NOT NULL AS is_blocking
        FROM _runtime_calls AS c
        INNER JOIN spans AS s
            ON s.trace = c.trace
            AND s.rank = c.rank
            AND c.ts_ns >= s.call_from_ns
            AND c.ts_ns <= s.end_ns
        LEFT JOIN copy_waits AS w ON w.trace = c.trace AND w.runtime_event_id = c.event_id
        WHERE c.end_ns > s.start_ns AND c.end_ns <= s.end_ns
    ),

    -- Ends and starts of device events and returns of blocking calls in one strict order: ends
    -- first, then events without duration one after the other, then starts, then calls. Each event
    -- is preceded by one that is earlier in this order, so that no walk returns.
    marks AS (
        SELECT
            trace, rank, device, stream, event_id, end_ns AS at_ns, 'end' AS mark,
            CASE WHEN is_point THEN 1 ELSE 0 END AS phase, 1 AS part
        FROM events
        UNION ALL
        SELECT
            trace, rank, device, stream, event_id, ts_ns, 'start',
            CASE WHEN is_point THEN 1 ELSE 2 END, 0
        FROM events
        UNION ALL
        SELECT trace, rank, NULL, NULL, event_id, end_ns, 'call', 3, 0
        FROM calls
        WHERE is_blocking
    ),

    ordered AS (
        SELECT
            trace, rank, device, stream, event_id, at_ns, mark,
            row_number() OVER (PARTITION BY trace ORDER BY at_ns, phase, event_id, part) AS pos
        FROM marks
    ),

    -- What has ended last before each mark: on its stream, and anywhere on the rank.
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
                PARTITION BY trace, rank, device, stream ORDER BY pos
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            anywhere AS (
                PARTITION BY trace, rank ORDER BY pos
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
    ),

    -- Shares of calls whose last rank came longer after the own one than the gap that counts. The
    -- last one waits for nobody, whatever gap is asked for.
    meetings AS (
        SELECT
            w.trace, w.event_id, e.ts_ns + w.late_ns AS met_ns, o.pos AS last_start_pos
        FROM _waits AS w
        INNER JOIN events AS e ON e.trace = w.trace AND e.event_id = w.event_id
        INNER JOIN clocks AS k ON k.trace = e.trace AND k.rank = e.rank AND k.aligned = w.aligned
        INNER JOIN _waits AS l
            ON l.trace = w.trace
            AND l.source = w.source
            AND l.collective_id = w.collective_id
            AND l.aligned = w.aligned
            AND l.rank = w.last_rank
        INNER JOIN ordered AS o
            ON o.trace = l.trace AND o.event_id = l.event_id AND o.mark = 'start'
        WHERE w.wait_ns > 1e3 * $gap_us AND NOT w.is_last
    ),

    -- Calls in which the host waited: a device event ended while they ran.
    syncs AS (
        SELECT
            c.trace, c.rank, c.event_id, c.name, c.pid, c.tid, c.end_ns,
            b.any_pos AS device_pos, b.any_ns AS device_ns
        FROM calls AS c
        INNER JOIN before AS b
            ON b.trace = c.trace AND b.event_id = c.event_id AND b.mark = 'call'
        WHERE b.any_ns > c.ts_ns
    ),

    -- The thread of the step on each rank: that of its marker, else the one that calls most.
    marker_threads AS (
        SELECT s.trace, s.rank, s.pid, s.tid
        FROM _step_threads AS s
        INNER JOIN bounds AS b ON b.trace = s.trace AND b.step = s.step
        QUALIFY row_number() OVER (
            PARTITION BY s.trace, s.rank ORDER BY abs(s.end_ns - b.step_end_ns), s.event_id
        ) = 1
    ),

    threads AS (
        SELECT
            c.trace, c.rank, c.pid, c.tid,
            concat_ws(':', c.rank, coalesce(c.pid, -1), coalesce(c.tid, -1)) AS thread,
            min(c.ts_ns) AS first_ns,
            row_number() OVER (
                PARTITION BY c.trace, c.rank
                ORDER BY count(m.trace) DESC, count(*) DESC, c.pid, c.tid
            ) = 1 AS is_main
        FROM calls AS c
        LEFT JOIN marker_threads AS m
            ON m.trace = c.trace
            AND m.rank = c.rank
            AND m.pid IS NOT DISTINCT FROM c.pid
            AND m.tid IS NOT DISTINCT FROM c.tid
        GROUP BY c.trace, c.rank, c.pid, c.tid
    ),

    -- Keys of threads, so that a missing number is one too.
    thread_syncs AS (
        SELECT
            s.trace, s.rank,
            concat_ws(':', s.rank, coalesce(s.pid, -1), coalesce(s.tid, -1)) AS thread,
            s.event_id, s.name, s.tid, s.end_ns, s.device_pos, s.device_ns
        FROM syncs AS s
        QUALIFY row_number() OVER (
            PARTITION BY s.trace, s.rank, s.pid, s.tid, s.end_ns ORDER BY s.event_id DESC
        ) = 1
    ),

    main_syncs AS (
        SELECT s.trace, s.rank, s.event_id, s.name, s.tid, s.end_ns, s.device_pos, s.device_ns
        FROM thread_syncs AS s
        INNER JOIN threads AS t ON t.trace = s.trace AND t.thread = s.thread
        WHERE t.is_main
    ),

    -- A thread that is not the main one was started by it: what the main one waited for before the
    -- first call of the other is what the other waited for.
    inherited AS (
        SELECT
            t.trace, t.thread, m.event_id, m.name, m.tid, m.end_ns, m.device_pos, m.device_ns
        FROM threads AS t
        ASOF INNER JOIN main_syncs AS m
            ON m.trace = t.trace AND m.rank = t.rank AND m.end_ns < t.first_ns
    ),

    placed_events AS (
        SELECT
            e.trace, e.rank, e.event_id, e.class, e.name, e.device, e.stream, e.ts_ns, e.end_ns,
            e.is_in_step, e.launched_ns, e.runtime_event_id, e.tid,
            concat_ws(':', e.rank, coalesce(e.pid, -1), coalesce(e.tid, -1)) AS thread,
            o.pos, s.pos AS start_pos, s.stream_pos, s.stream_ns, s.any_pos, s.any_ns,
            m.met_ns, m.last_start_pos,
            greatest(s.stream_ns, e.launched_ns, b.start_ns) AS ready_ns,
            b.start_ns AS step_ns
        FROM events AS e
        INNER JOIN bounds AS b ON b.trace = e.trace
        INNER JOIN ordered AS o
            ON o.trace = e.trace AND o.event_id = e.event_id AND o.mark = 'end'
        INNER JOIN before AS s
            ON s.trace = e.trace AND s.event_id = e.event_id AND s.mark = 'start'
        -- Calls that do not overlap on the ranks are not waited in.
        LEFT JOIN meetings AS m
            ON m.trace = e.trace AND m.event_id = e.event_id AND m.last_start_pos < o.pos
    ),

    explained AS (
        SELECT
            trace, rank, event_id, class, name, device, stream, ts_ns, end_ns, is_in_step,
            launched_ns, runtime_event_id, tid, thread, pos, start_pos, stream_pos, stream_ns,
            any_pos, any_ns, met_ns, last_start_pos,
            CASE
                WHEN last_start_pos IS NOT NULL THEN 'rank'
                WHEN any_ns > ready_ns AND ts_ns - ready_ns > 1e3 * $gap_us THEN 'other'
                WHEN launched_ns > coalesce(stream_ns, step_ns) THEN 'launch'
                WHEN stream_pos IS NOT NULL THEN 'stream'
                ELSE 'none'
            END AS cause,
            lag(pos) OVER (PARTITION BY trace, rank, device, stream ORDER BY pos) AS previous_pos
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
            e.trace, e.rank, e.event_id, e.class, e.name, e.device, e.stream, e.ts_ns, e.end_ns,
            e.is_in_step, e.launched_ns, e.runtime_event_id, e.tid, e.pos, e.start_pos, e.stream_ns,
            e.cause, e.any_ns, e.met_ns, e.last_start_pos,
            coalesce(w.sync_event_id, i.event_id) AS sync_event_id,
            coalesce(w.sync_name, i.name) AS sync_name,
            CASE WHEN w.event_id IS NULL THEN i.tid ELSE e.tid END AS sync_tid,
            coalesce(w.sync_end_ns, i.end_ns) AS sync_end_ns,
            coalesce(w.device_ns, i.device_ns) AS device_ns,
            CASE e.cause
                WHEN 'rank' THEN e.last_start_pos
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
            trace, rank, event_id, class, name, device, stream, ts_ns, end_ns, is_in_step,
            launched_ns, runtime_event_id, tid, pos, start_pos, stream_ns, cause, any_ns, met_ns,
            last_start_pos, sync_event_id, sync_name, sync_tid, sync_end_ns, device_ns, before_pos,
            is_head,
            max(CASE WHEN is_head THEN pos END) OVER (
                PARTITION BY trace, rank, device, stream ORDER BY pos
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
        SELECT b.trace, m.rank, m.event_id, m.name, m.tid, m.end_ns, m.device_pos, m.device_ns
        FROM bounds AS b
        ASOF INNER JOIN main_syncs AS m
            ON m.trace = b.trace AND m.rank = b.end_rank AND m.end_ns <= b.step_end_ns
        WHERE b.end_ns = b.step_end_ns
    ),

    roots AS (
        SELECT trace, pos
        FROM last_events
        UNION ALL
        SELECT trace, device_pos
        FROM last_syncs
    ),

    -- A run is left where its first event leads; it is entered at the end of one of its events, or,
    -- from another rank, at the start of a call.
    exits AS (
        SELECT r.trace, r.pos, r.head_pos, h.before_pos
        FROM runs AS r
        INNER JOIN runs AS h ON h.trace = r.trace AND h.pos = r.head_pos
        UNION ALL
        SELECT r.trace, r.start_pos, r.head_pos, h.before_pos
        FROM (SELECT DISTINCT trace, last_start_pos FROM runs) AS l
        INNER JOIN runs AS r ON r.trace = l.trace AND r.start_pos = l.last_start_pos
        INNER JOIN runs AS h ON h.trace = r.trace AND h.pos = r.head_pos
    ),

    -- Only where a run may be entered.
    doors AS (
        SELECT trace, pos
        FROM roots
        UNION
        SELECT trace, before_pos
        FROM exits
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
        SELECT trace, pos, head_pos, before_pos, is_passed
        FROM hops
        UNION ALL
        SELECT
            w.trace, w.pos, w.head_pos, n.before_pos, w.is_passed OR p.pos IS NOT NULL
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

    -- The events of the path: of each run what comes no later than where it is entered; of a call
    -- that is entered at its start what comes before it alone.
    passed AS (
        SELECT
            r.trace, r.rank, r.event_id, r.class, r.name, r.device, r.stream, r.ts_ns, r.end_ns,
            r.launched_ns, r.runtime_event_id, r.tid, r.stream_ns, r.any_ns, r.cause, r.met_ns,
            r.sync_event_id, r.sync_name, r.sync_tid, r.sync_end_ns, r.device_ns,
            r.pos <= p.pos AS is_whole
        FROM path AS p
        INNER JOIN runs AS r
            ON r.trace = p.trace
            AND r.head_pos = p.head_pos
            AND (r.pos <= p.pos OR r.start_pos = p.pos)
    ),

    pieces AS (
        -- A call goes on when its last rank has come.
        SELECT
            trace, rank, CASE cause WHEN 'rank' THEN met_ns ELSE ts_ns END AS start_ns, end_ns,
            CASE class WHEN 'set' THEN 'copy' WHEN 'graph' THEN 'compute' ELSE class END AS kind,
            name, stream AS lane, device, event_id
        FROM passed
        WHERE is_whole
        UNION ALL
        -- What lies before an event: up to the other event, the launch, or the start of the step.
        SELECT
            trace, rank,
            CASE cause
                WHEN 'stream' THEN stream_ns
                WHEN 'other' THEN any_ns
                WHEN 'launch' THEN launched_ns
            END,
            ts_ns,
            CASE cause WHEN 'launch' THEN 'launch' ELSE 'wait' END,
            name, stream, device, event_id
        FROM passed
        WHERE cause <> 'rank'
        UNION ALL
        SELECT
            trace, rank, sync_end_ns, launched_ns, 'host', CAST(NULL AS VARCHAR), tid, NULL,
            runtime_event_id
        FROM passed
        WHERE cause = 'launch'
        UNION ALL
        SELECT
            trace, rank, device_ns, sync_end_ns, 'sync', sync_name, sync_tid, NULL, sync_event_id
        FROM passed
        UNION ALL
        -- The host at the end of the step.
        SELECT
            b.trace, b.end_rank, s.end_ns, b.step_end_ns, 'host', NULL, t.tid, NULL, NULL
        FROM bounds AS b
        LEFT JOIN last_syncs AS s ON s.trace = b.trace
        LEFT JOIN threads AS t ON t.trace = b.trace AND t.rank = b.end_rank AND t.is_main
        WHERE b.end_ns = b.step_end_ns
        UNION ALL
        SELECT trace, rank, device_ns, end_ns, 'sync', name, tid, NULL, event_id
        FROM last_syncs
    ),

    -- What nothing is known to come before begins with the step, and so does what began before it.
    segments AS (
        SELECT
            p.trace, p.rank, greatest(p.start_ns, b.start_ns) AS start_ns,
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
                start_ns: start_ns, dur_ns: dur_ns, kind: kind, name: name, rank: rank,
                lane: lane, device: device, event_id: event_id
            } ORDER BY start_ns) AS segments
        FROM segments
        GROUP BY trace
    ),

    rank_kinds AS (
        SELECT trace, rank, kind, TRY_CAST(sum(dur_ns) AS BIGINT) AS kind_ns
        FROM segments
        GROUP BY trace, rank, kind
    ),

    rank_times AS (
        SELECT
            trace, rank, TRY_CAST(sum(kind_ns) AS BIGINT) AS rank_ns,
            (array_agg(kind ORDER BY kind_ns DESC, kind))[1] AS reason,
            map(array_agg(kind ORDER BY kind), array_agg(kind_ns / 1e6 ORDER BY kind)) AS by_kind_ms
        FROM rank_kinds
        GROUP BY trace, rank
    ),

    caused AS (
        SELECT
            t.trace, t.rank, t.rank_ns, t.reason, t.by_kind_ms, c.cause_rank,
            coalesce(c.cause_rank, t.rank) AS origin_rank
        FROM rank_times AS t
        INNER JOIN clocks AS k ON k.trace = t.trace AND k.rank = t.rank
        LEFT JOIN _wait_causes AS c
            ON c.trace = t.trace AND c.rank = t.rank AND c.aligned = k.aligned
    ),

    rank_lists AS (
        SELECT
            trace,
            array_agg({
                rank: rank, cause_rank: cause_rank, time_ms: rank_ns / 1e6, reason: reason,
                by_kind_ms: by_kind_ms
            } ORDER BY rank_ns DESC, rank) AS by_rank
        FROM caused
        GROUP BY trace
    ),

    foremost AS (
        SELECT
            trace, origin_rank AS rank, sum(rank_ns) AS rank_ns,
            -- Of the rank itself, where the path is on it at all.
            (array_agg(reason ORDER BY rank = origin_rank DESC, rank_ns DESC, rank))[1] AS reason
        FROM caused
        GROUP BY trace, origin_rank
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY sum(rank_ns) DESC, origin_rank
        ) = 1
    ),

    kinds AS (
        SELECT trace, kind, sum(kind_ns) / 1e6 AS time_ms
        FROM rank_kinds
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

    alignment AS (
        SELECT trace, bool_or(aligned) AS clock_aligned
        FROM clocks
        GROUP BY trace
    )

SELECT
    b.trace, s.dur_ns / 1e6 AS critical_path_ms, l.rank, 100.0 * l.rank_ns / s.dur_ns AS rank_pct,
    l.reason, b.end_rank, b.step, (b.end_ns - b.start_ns) / 1e6 AS step_ms,
    CASE WHEN b.end_ns > b.step_end_ns THEN 'device' ELSE 'host' END AS ends_on,
    r.by_rank, k.by_kind_ms, coalesce(n.by_name, []) AS by_name, s.segments_count, s.segments,
    a.clock_aligned, c.launch_coverage_ratio
FROM bounds AS b
INNER JOIN segment_lists AS s ON s.trace = b.trace
INNER JOIN rank_lists AS r ON r.trace = b.trace
INNER JOIN foremost AS l ON l.trace = b.trace
INNER JOIN kind_maps AS k ON k.trace = b.trace
INNER JOIN alignment AS a ON a.trace = b.trace
LEFT JOIN name_lists AS n ON n.trace = b.trace
LEFT JOIN coverage AS c ON c.trace = b.trace
ORDER BY b.trace
