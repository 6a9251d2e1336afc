-- @view     folded_stacks
-- @summary  Call stacks as other viewers of flame graphs read them: the frames of a stack in one
--           text, from the outermost on, with ; between them.
-- @requires call_stacks
-- @null     no function, range or operator of the host was recorded
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   pid BIGINT dim - | Process.
-- @column   tid BIGINT dim - | Thread.
-- @column   phase VARCHAR dim - | Phase of training; rest outside of them, NULL where there are
--           none.
-- @column   stack VARCHAR dim - | Frames, each of 256 characters at most; a ; in a name is a :,
--           what steers a terminal or ends a line is a blank.
-- @column   call_count BIGINT value count | Calls.
-- @column   self_ns BIGINT value ns | Time in the last frame alone.
-- @column   device_ns BIGINT value ns | Durations of the device events that it launches.
-- @caveat   Two names that differ behind the 256th character alone are two rows.
-- @source   collapsed stacks of Brendan Gregg's FlameGraph, which speedscope and inferno read too
WITH RECURSIVE
    nodes AS (
        SELECT
            trace, rank, pid, tid, phase, node, parent, call_count, self_ns, device_ns,
            dense_rank() OVER (ORDER BY trace, rank, pid, tid, phase) AS thread_no,
            regexp_replace(
                replace(left(coalesce(frame, '?'), 256), ';', ':'), '[\x00-\x1f\x7f-\x9f]', ' ', 'g'
            ) AS frame
        FROM call_stacks
    ),

    stacks AS (
        SELECT thread_no, node, frame AS stack
        FROM nodes
        WHERE parent IS NULL
        UNION ALL
        SELECT n.thread_no, n.node, s.stack || ';' || n.frame
        FROM stacks AS s
        INNER JOIN nodes AS n ON n.thread_no = s.thread_no AND n.parent = s.node
    )

SELECT n.trace, n.rank, n.pid, n.tid, n.phase, s.stack, n.call_count, n.self_ns, n.device_ns
FROM nodes AS n
INNER JOIN stacks AS s ON s.thread_no = n.thread_no AND s.node = n.node
WHERE n.self_ns > 0 OR n.device_ns > 0
ORDER BY n.trace, n.rank, n.pid, n.tid, n.phase, s.stack
