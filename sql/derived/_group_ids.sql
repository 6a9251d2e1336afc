-- @derived  _group_ids
-- @summary  The process group that the events of a name and a key of ranks are of.
-- @requires process_groups
-- @reads    _stated_groups
-- @column   pg_name VARCHAR value - | Name.
-- @column   ranks_key BIGINT value - | As in _collective_events.
-- @column   pg_id BIGINT value - | The group.
-- @column   is_listed BOOLEAN value - | Whether its ranks are known.
-- @source   metrics 1.4: the rank set and the name together are the identity
SELECT DISTINCT s.pg_name, s.ranks_key, g.pg_id, g.ranks IS NOT NULL AS is_listed
FROM _stated_groups AS s
INNER JOIN process_groups AS g
    ON g.pg_name = s.pg_name AND g.ranks IS NOT DISTINCT FROM s.ranks
