-- @view     call_stacks
-- @summary  Call stacks on the threads of the hosts, by phase: functions of Python, ranges,
--           operators and calls of the runtime as they lie in one another, a row for each distinct
--           stack.
-- @requires host_events _stack_parts
-- @null     no function, range or operator of the host was recorded
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   pid BIGINT dim - | Process.
-- @column   tid BIGINT dim - | Thread.
-- @column   phase VARCHAR dim - | Phase of training; rest outside of them, NULL where there are
--           none.
-- @column   node BIGINT dim - | Number of the stack in its thread and phase.
-- @column   parent BIGINT value - | Number of the stack without its last frame; NULL of the
--           outermost.
-- @column   depth BIGINT value - | Frames of the stack.
-- @column   class VARCHAR value - | python, host_annotation, host_op or host_runtime.
-- @column   frame VARCHAR value - | Last frame: name as recorded.
-- @column   call_count BIGINT value count | Calls; one that lasts over several phases counts in its
--           first.
-- @column   total_ns BIGINT value ns | Time in the frame and what it calls.
-- @column   self_ns BIGINT value ns | Time in the frame alone.
-- @column   device_ns BIGINT value ns | Durations of the device events that the frame itself
--           launches.
-- @column   device_total_ns BIGINT value ns | That, and of those that the frames it calls launch.
-- @caveat   A frame that reaches beyond the end of the one around it is cut there. Frames deeper
--           than 512 count for the last one of these; so do frames of a thread and phase with more
--           than 262,144 distinct stacks.
-- @source   collapsed stacks of Brendan Gregg's FlameGraph
WITH
    names AS (
        SELECT
            trace, class, name,
            row_number() OVER (PARTITION BY trace ORDER BY class, name) AS name_no
        FROM _stack_parts
        GROUP BY trace, class, name
    ),

    threads AS (
        SELECT
            p.trace, p.source, p.rank, p.pid, p.tid, p.phase,
            fold_stacks(
                array_agg({
                    name: n.name_no, start_ns: p.start_ns, end_ns: p.end_ns,
                    calls: CAST(p.calls AS BIGINT), device_ns: CAST(p.device_ns AS BIGINT)
                } ORDER BY p.ts_ns, p.whole_end_ns DESC, n.name_no)
            ) AS nodes
        FROM _stack_parts AS p
        INNER JOIN names AS n
            ON n.trace = p.trace AND n.class = p.class AND n.name IS NOT DISTINCT FROM p.name
        GROUP BY p.trace, p.source, p.rank, p.pid, p.tid, p.phase
    ),

    -- Two profilers may record one thread.
    numbered AS (
        SELECT
            trace, rank, pid, tid, phase, nodes,
            sum(len(nodes)) OVER (
                PARTITION BY trace, rank, pid, tid, phase ORDER BY source
            ) - len(nodes) AS before
        FROM threads
    ),

    unfolded AS (
        SELECT trace, rank, pid, tid, phase, CAST(before AS BIGINT) AS before, unnest(nodes) AS n
        FROM numbered
    )

SELECT
    u.trace, u.rank, u.pid, u.tid, u.phase, u.before + u.n.node AS node,
    u.before + u.n.parent AS parent, u.n.depth AS depth, m.class, m.name AS frame,
    u.n.calls AS call_count, u.n.total_ns AS total_ns, u.n.self_ns AS self_ns,
    u.n.device_ns AS device_ns, u.n.device_total_ns AS device_total_ns
FROM unfolded AS u
INNER JOIN names AS m ON m.trace = u.trace AND m.name_no = u.n.name
ORDER BY u.trace, u.rank, u.pid, u.tid, u.phase, node
