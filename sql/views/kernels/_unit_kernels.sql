-- @view     _unit_kernels
-- @summary  Kernels of all ranks by name and launching operator: those that the steps launched, and
--           all.
-- @materialize session
-- @requires step_events kernel_classes
-- @reads    launches host_events
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   name VARCHAR dim - | Name of the kernel as recorded.
-- @column   op_name VARCHAR dim - | Innermost operator around the launch; NULL without one.
-- @column   kernel_class VARCHAR dim - | Class of kernel_patterns; other where no pattern matches.
-- @column   step_kernel_count BIGINT value count | Kernels that a step launched.
-- @column   step_dur_ns HUGEINT value ns | Their durations added up.
-- @column   kernel_count BIGINT value count | Kernels.
-- @column   dur_ns HUGEINT value ns | Their durations added up.
WITH
    operators AS (
        SELECT l.trace, l.event_id, h.name AS op_name
        FROM launches AS l
        INNER JOIN host_events AS h ON h.event_id = l.op_event_id AND h.trace = l.trace
    ),

    sums AS (
        SELECT
            e.trace, e.class, e.name, o.op_name,
            count(*) FILTER (WHERE e.step IS NOT NULL) AS step_kernel_count,
            sum(e.dur_ns) FILTER (WHERE e.step IS NOT NULL) AS step_dur_ns,
            count(*) AS kernel_count,
            sum(e.dur_ns) AS dur_ns
        FROM step_events AS e
        LEFT JOIN operators AS o ON o.event_id = e.event_id AND o.trace = e.trace
        WHERE e.class IN ('compute', 'comm') AND e.dur_ns IS NOT NULL AND e.rank IS NOT NULL
        GROUP BY e.trace, e.class, e.name, o.op_name
    ),

    -- A name has one class, whichever profiler recorded it.
    classes AS (
        SELECT trace, class, name, op_name, min(kernel_class) AS kernel_class
        FROM kernel_classes
        GROUP BY trace, class, name, op_name
    )

SELECT
    s.trace, s.name, s.op_name, c.kernel_class,
    CAST(sum(s.step_kernel_count) AS BIGINT) AS step_kernel_count,
    CAST(sum(s.step_dur_ns) AS HUGEINT) AS step_dur_ns,
    CAST(sum(s.kernel_count) AS BIGINT) AS kernel_count,
    CAST(sum(s.dur_ns) AS HUGEINT) AS dur_ns
FROM sums AS s
INNER JOIN classes AS c
    ON c.trace = s.trace
    AND c.class = s.class
    AND c.name IS NOT DISTINCT FROM s.name
    AND c.op_name IS NOT DISTINCT FROM s.op_name
GROUP BY s.trace, s.name, s.op_name, c.kernel_class
