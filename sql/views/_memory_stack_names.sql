-- @view     _memory_stack_names
-- @summary  Each call stack of the memory snapshots as a list of its innermost frames, the innermost first.
-- @requires memory_stacks
SELECT
    trace,
    stack_id,
    array_agg(
        concat(function, ' (', filename, ':', line, ')') ORDER BY depth
    ) FILTER (WHERE depth < 12) AS frames
FROM memory_stacks
GROUP BY trace, stack_id
