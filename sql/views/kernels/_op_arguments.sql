-- @view     _op_arguments
-- @summary  Operators of each rank by their arguments: how often they ran, and how long the kernels
--           take that they launch.
-- @materialize session
-- @requires launches device_events host_events op_models
-- @caveat   Values of arguments are kept of the operators of op_models alone: others count on with
--           each call.
WITH
    calls AS (
        SELECT
            d.trace, d.rank, l.op_event_id,
            count(*) AS kernel_count,
            sum(d.dur_ns) AS dur_ns,
            bool_or(d.name LIKE '%tf32%' OR d.name LIKE '%xf32%') AS is_tf32
        FROM device_events AS d
        INNER JOIN launches AS l ON l.event_id = d.event_id AND l.trace = d.trace
        WHERE d.class IN ('compute', 'comm') AND d.dur_ns IS NOT NULL
        GROUP BY d.trace, d.rank, l.op_event_id
    ),

    named AS (
        SELECT
            c.trace, c.rank, c.kernel_count, c.dur_ns, c.is_tf32,
            h.name AS op_name,
            m.kind IS NOT NULL AS is_modelled,
            CASE WHEN json_valid(h.args) THEN h.args END AS args
        FROM calls AS c
        INNER JOIN host_events AS h ON h.event_id = c.op_event_id AND h.trace = c.trace
        LEFT JOIN op_models AS m ON m.op_name = h.name
    ),

    -- Older profilers write the key of the shapes in lower case.
    spoken AS (
        SELECT
            trace, rank, op_name, kernel_count, dur_ns, is_tf32,
            CAST(
                coalesce(json_extract(args, '$."Input Dims"'), json_extract(args, '$."Input dims"'))
                AS VARCHAR
            ) AS input_dims,
            CAST(json_extract(args, '$."Input type"') AS VARCHAR) AS input_types,
            CASE WHEN is_modelled THEN CAST(json_extract(args, '$."Concrete Inputs"') AS VARCHAR) END
                AS concrete_inputs
        FROM named
    )

SELECT
    trace, rank, op_name, input_dims, input_types, concrete_inputs,
    bool_or(is_tf32) AS is_tf32,
    count(*) AS call_count,
    sum(kernel_count) AS kernel_count,
    sum(dur_ns) AS dur_ns,
    min(dur_ns) AS min_dur_ns,
    max(dur_ns) AS max_dur_ns
FROM spoken
GROUP BY trace, rank, op_name, input_dims, input_types, concrete_inputs
