-- @derived  _stated_groups
-- @summary  Process groups as the events of all ranks state them, with their ranks.
-- @reads    _call_counts _rank_lists
-- @column   pg_name VARCHAR value - | Name.
-- @column   pg_desc VARCHAR value - | Description.
-- @column   group_size BIGINT value - | Size.
-- @column   ranks_key BIGINT value - | As in _collective_events.
-- @column   ranks BIGINT[] value - | The ranks, where they are known.
-- @source   formats_kineto section 4
WITH
    stated AS (
        SELECT DISTINCT pg_name, pg_desc, stated_size AS group_size, ranks_key, rank_start, rank_stride
        FROM _call_counts
        WHERE pg_name IS NOT NULL
    ),

    lists AS (
        SELECT ranks_key, any_value(ranks) AS ranks
        FROM _rank_lists
        GROUP BY ranks_key
    )

SELECT
    s.pg_name, s.pg_desc, s.group_size, s.ranks_key,
    CASE WHEN s.rank_start IS NULL THEN l.ranks
        ELSE range(s.rank_start, s.rank_start + s.rank_stride * s.group_size, s.rank_stride) END AS ranks
FROM stated AS s
LEFT JOIN lists AS l ON l.ranks_key = s.ranks_key
