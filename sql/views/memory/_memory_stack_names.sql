-- @view     _memory_stack_names
-- @summary  Each call stack of the memory snapshots: its 12 innermost frames that name a line of
--           source, the innermost first, and all of it.
-- @requires memory_stacks
WITH
    -- Frames of libraries without debug information say no line; where all are such, all count.
    frames AS (
        SELECT
            trace, stack_id, depth, concat(function, ' (', filename, ':', line, ')') AS frame,
            line > 0 AS has_line,
            sum(CASE WHEN line > 0 THEN 1 ELSE 0 END) OVER (PARTITION BY trace, stack_id) AS line_count
        FROM memory_stacks
    ),

    placed AS (
        SELECT
            trace, stack_id, depth, frame, has_line OR line_count = 0 AS is_shown,
            row_number() OVER (
                PARTITION BY trace, stack_id, has_line OR line_count = 0 ORDER BY depth
            ) AS place
        FROM frames
    )

SELECT
    trace,
    stack_id,
    array_agg(frame ORDER BY depth) FILTER (WHERE is_shown AND place <= 12) AS frames,
    array_agg(frame ORDER BY depth) AS whole
FROM placed
GROUP BY trace, stack_id
