-- @view     step_stacks
-- @summary  Call stacks of one step on the host of one rank, to be drawn: the lowest rank that has
--           any, in the step whose time is nearest the median, or the whole trace where it has no
--           steps.
-- @requires host_events _drawn_windows
-- @reads    steps _clock_shifts _phase_windows _launched_times
-- @null     no function, range or operator of the host was recorded
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   step BIGINT dim - | Step; NULL for the whole trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   thread VARCHAR dim - | Thread.
-- @column   phase VARCHAR dim - | Phase of training; rest outside of them, NULL where there are
--           none.
-- @column   node BIGINT dim - | Number of the stack in its thread and phase.
-- @column   parent BIGINT value - | Number of the stack without its last frame.
-- @column   class VARCHAR value - | python, host_annotation, host_op or host_runtime.
-- @column   frame VARCHAR value - | Last frame, of 160 characters at most.
-- @column   call_count BIGINT value count | Calls.
-- @column   total_us DOUBLE value us | Time in the frame and what it calls.
-- @column   device_us DOUBLE value us | Durations of the device events that the frame and what it
--           calls launch.
-- @caveat   Made to be looked at: the 2,500 stacks that take longest, and those that launch most;
--           call_stacks has all.
-- @source   the view call_stacks, of one step
WITH
    first_ranks AS (
        SELECT trace, min(rank) AS rank
        FROM host_events
        WHERE class IN ('python', 'host_annotation', 'host_op', 'host_runtime') AND dur_ns >= 0
        GROUP BY trace
    ),

    bounds AS (
        SELECT
            w.trace, w.step, c.rank, w.start_ns + c.shift_ns AS start_ns, w.end_ns + c.shift_ns AS end_ns
        FROM _drawn_windows AS w
        INNER JOIN first_ranks AS f ON f.trace = w.trace
        INNER JOIN _clock_shifts AS c
            ON c.trace = f.trace AND c.rank = f.rank AND c.aligned = c.by_itself
    ),

    -- Of a step its own bounds: those of the window are over all ranks.
    own AS (
        SELECT
            b.trace, b.step, b.rank,
            coalesce(min(s.ts_ns), any_value(b.start_ns)) AS start_ns,
            coalesce(min(s.ts_ns + s.dur_ns), any_value(b.end_ns)) AS end_ns
        FROM bounds AS b
        LEFT JOIN steps AS s
            ON s.trace = b.trace AND s.rank = b.rank AND s.step = b.step AND s.dur_ns > 0
            AND s.ts_ns < b.end_ns AND s.ts_ns + s.dur_ns > b.start_ns
        GROUP BY b.trace, b.step, b.rank
    ),

    frames AS (
        SELECT
            h.trace, o.step, h.source, h.rank, h.pid, h.tid, h.class, left(h.name, 160) AS name,
            h.event_id, h.ts_ns, h.ts_ns + h.dur_ns AS end_ns,
            o.start_ns AS own_start_ns, o.end_ns AS own_end_ns
        FROM host_events AS h
        INNER JOIN own AS o
            ON o.trace = h.trace AND o.rank = h.rank
            AND h.ts_ns < o.end_ns AND h.ts_ns + h.dur_ns > o.start_ns
        WHERE h.class IN ('python', 'host_annotation', 'host_op', 'host_runtime')
    ),

    windows AS (
        SELECT w.trace, w.source, w.rank, w.phase, w.start_ns, w.end_ns
        FROM _phase_windows AS w
        INNER JOIN own AS o
            ON o.trace = w.trace AND o.rank = w.rank
            AND w.start_ns < o.end_ns AND w.end_ns > o.start_ns
    ),

    -- What runs, cut at the bounds of the phases as in _stack_parts.
    cut AS (
        SELECT
            f.trace, f.step, f.rank, f.pid, f.tid, w.phase, f.class, f.name, f.event_id,
            f.ts_ns, f.end_ns AS whole_end_ns, f.own_start_ns, f.own_end_ns,
            greatest(f.ts_ns, w.start_ns) AS start_ns,
            least(f.end_ns, w.end_ns) AS end_ns,
            f.ts_ns >= coalesce(w.start_ns, f.ts_ns) AND f.ts_ns >= f.own_start_ns AS is_first
        FROM frames AS f
        LEFT JOIN windows AS w
            ON w.trace = f.trace AND w.source = f.source
            AND f.ts_ns < w.end_ns AND (f.end_ns > w.start_ns OR f.ts_ns = w.start_ns)
    ),

    parts AS (
        SELECT
            c.trace, c.step, c.rank, c.pid, c.tid, c.phase, c.class, c.name,
            c.ts_ns, c.whole_end_ns,
            greatest(c.start_ns, c.own_start_ns) AS start_ns, least(c.end_ns, c.own_end_ns) AS end_ns,
            CASE WHEN c.is_first THEN 1 ELSE 0 END AS calls,
            CASE WHEN c.is_first THEN coalesce(d.device_ns, 0) ELSE 0 END AS device_ns
        FROM cut AS c
        LEFT JOIN _launched_times AS d ON d.trace = c.trace AND d.event_id = c.event_id
    ),

    names AS (
        SELECT
            p.trace, p.class, p.name,
            row_number() OVER (PARTITION BY p.trace ORDER BY p.class, p.name) AS name_no
        FROM parts AS p
        GROUP BY p.trace, p.class, p.name
    ),

    threads AS (
        SELECT
            p.trace, p.step, p.rank, p.pid, p.tid, p.phase,
            row_number() OVER (ORDER BY p.trace, p.pid, p.tid, p.phase) AS thread_no,
            fold_stacks(
                array_agg({
                    name: n.name_no, start_ns: p.start_ns, end_ns: p.end_ns,
                    calls: CAST(p.calls AS BIGINT), device_ns: CAST(p.device_ns AS BIGINT)
                } ORDER BY p.ts_ns, p.whole_end_ns DESC, n.name_no)
            ) AS nodes
        FROM parts AS p
        INNER JOIN names AS n
            ON n.trace = p.trace AND n.class = p.class AND n.name IS NOT DISTINCT FROM p.name
        GROUP BY p.trace, p.step, p.rank, p.pid, p.tid, p.phase
    ),

    unfolded AS (
        SELECT trace, thread_no, unnest(nodes) AS n
        FROM threads
    ),

    -- What is around a frame takes as long or longer, so that it is kept too.
    ranked AS (
        SELECT
            trace, thread_no, n,
            row_number() OVER (
                PARTITION BY trace ORDER BY n.total_ns DESC, n.depth, thread_no, n.node
            ) AS place,
            row_number() OVER (
                PARTITION BY trace ORDER BY n.device_total_ns DESC, n.depth, thread_no, n.node
            ) AS device_place
        FROM unfolded
    )

SELECT
    r.trace, t.step, t.rank, CAST(t.tid AS VARCHAR) AS thread, t.phase, r.n.node AS node,
    r.n.parent AS parent, m.class, m.name AS frame, r.n.calls AS call_count,
    r.n.total_ns / 1e3 AS total_us,
    r.n.device_total_ns / 1e3 AS device_us
FROM ranked AS r
INNER JOIN threads AS t ON t.thread_no = r.thread_no
INNER JOIN names AS m ON m.trace = r.trace AND m.name_no = r.n.name
WHERE r.place <= 2500 OR (r.device_place <= 2500 AND r.n.device_total_ns > 0)
ORDER BY r.trace, t.pid, t.tid, t.phase, r.n.node
