-- @derived  _call_texts
-- @partition rank
-- @summary  What the annotations and operators around calls say that state no kind: shapes as JSON,
--           types, a root.
-- @requires host_events
-- @reads    _host_calls _stated_calls
-- @check    (SELECT count(*) FROM _stated_calls WHERE coalesce(annotation_event_id,
--           comm_op_event_id, op_event_id) IS NOT NULL) + (SELECT count(*) FROM _host_calls WHERE
--           comm_op_event_id IS NOT NULL) > 0
--           | every call states its kind
-- @column   event_id BIGINT value - | The annotation or operator.
-- @column   name VARCHAR value - | Its name.
-- @column   word VARCHAR value - | What it calls the collective.
-- @column   has_output_first BOOLEAN value - | Whether the output is the first of its inputs.
-- @column   dims JSON value - | Dimensions of its inputs.
-- @column   types JSON value - | Types of its inputs.
-- @column   concrete_rank BIGINT value - | The rank among its inputs.
-- @source   formats_kineto sections 4 and 7; metrics 1.4
WITH
    wanted AS (
        SELECT annotation_event_id AS event_id
        FROM _stated_calls
        WHERE annotation_event_id IS NOT NULL
        UNION
        SELECT comm_op_event_id
        FROM _stated_calls
        WHERE comm_op_event_id IS NOT NULL
        UNION
        SELECT op_event_id
        FROM _stated_calls
        WHERE op_event_id IS NOT NULL
        UNION
        SELECT comm_op_event_id
        FROM _host_calls
        WHERE comm_op_event_id IS NOT NULL
    )

SELECT
    h.event_id, h.name,
    substr(h.name, strpos(h.name, ':') + CASE WHEN h.name LIKE 'c10d::%' THEN 2 ELSE 1 END)
        AS word,
    h.name IN ('c10d::alltoall_base_', 'c10d::_allgather_base_', 'c10d::_reduce_scatter_base_')
        AS has_output_first,
    json_extract(h.args, '$."Input Dims"') AS dims,
    json_extract(h.args, '$."Input type"') AS types,
    TRY_CAST(json_extract_string(h.args, '$."Concrete Inputs"[2]') AS BIGINT) AS concrete_rank
FROM (
    SELECT event_id, name, CASE WHEN json_valid(args) THEN args END AS args
    FROM host_events
) AS h
INNER JOIN wanted AS w ON w.event_id = h.event_id
