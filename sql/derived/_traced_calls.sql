-- @derived  _traced_calls
-- @partition rank
-- @summary  Calls as the execution trace of the rank has them, by the event of Kineto: the record,
--           on gloo the annotation.
-- @requires et_links et_nodes
-- @column   event_id BIGINT value - | The record or annotation.
-- @column   collective_name VARCHAR value - | As in et_nodes.
-- @column   dtype VARCHAR value - | As in et_nodes.
-- @column   in_elems BIGINT value - | As in et_nodes.
-- @column   out_elems BIGINT value - | As in et_nodes.
-- @column   in_split VARCHAR value - | As in et_nodes.
-- @column   out_split VARCHAR value - | As in et_nodes.
-- @column   group_size BIGINT value - | As in et_nodes.
-- @column   rank_start BIGINT value - | As in et_nodes.
-- @column   rank_stride BIGINT value - | As in et_nodes.
-- @column   pg_name VARCHAR value - | As in et_nodes, where the ranks of the group are stated.
-- @column   pg_desc VARCHAR value - | As in et_nodes, likewise.
-- @source   formats_kineto section 4 (execution traces)
SELECT
    l.event_id, n.collective_name, n.dtype, n.in_elems, n.out_elems, n.in_split, n.out_split,
    n.group_size, n.rank_start, n.rank_stride,
    -- A name alone does not say which ranks are meant.
    CASE WHEN n.rank_stride > 0 THEN n.pg_name END AS pg_name,
    CASE WHEN n.rank_stride > 0 THEN n.pg_desc END AS pg_desc
FROM et_links AS l
INNER JOIN et_nodes AS n
    ON n.rank = l.rank AND n.source_id = l.source_id AND n.node_id = l.node_id
WHERE n.collective_name IS NOT NULL AND n.collective_name <> 'wait'
QUALIFY row_number() OVER (PARTITION BY l.event_id ORDER BY n.name, n.inputs) = 1
ORDER BY l.event_id
