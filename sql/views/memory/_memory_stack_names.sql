-- @view     _memory_stack_names
-- @summary  Each call stack of the memory snapshots: its 12 innermost frames that name a line of
--           source, the innermost first, and all of it.
-- @requires memory_stacks
WITH
    frames AS (
        SELECT
            trace, stack_id, depth, concat(function, ' (', filename, ':', line, ')') AS frame,
            line > 0 AS has_line
        FROM memory_stacks
    )

SELECT
    trace,
    stack_id,
    -- Frames of libraries without debug information say no line; where all are such, all count.
    list_slice(
        coalesce(
            array_agg(frame ORDER BY depth) FILTER (WHERE has_line),
            array_agg(frame ORDER BY depth)
        ),
        1, 12
    ) AS frames,
    array_agg(frame ORDER BY depth) AS whole
FROM frames
GROUP BY trace, stack_id
