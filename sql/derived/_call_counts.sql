-- @derived  _call_counts
-- @partition rank
-- @summary  Communication events of each rank, counted by all that tells calls apart: what is said
--           of groups and of series is said of these.
-- @requires _collective_events
-- @column   source VARCHAR value - | Profiler.
-- @column   rank BIGINT value - | Global rank.
-- @column   collective VARCHAR value - | Kind of call.
-- @column   operation VARCHAR value - | Operation of the program, where it says one.
-- @column   coll_source VARCHAR value - | What says the kind.
-- @column   pg_name VARCHAR value - | Name of the group.
-- @column   pg_desc VARCHAR value - | Description of the group.
-- @column   stated_size BIGINT value - | Size of the group, where it is stated.
-- @column   ranks_key BIGINT value - | As in _collective_events.
-- @column   rank_start BIGINT value - | First rank of a regular group.
-- @column   rank_stride BIGINT value - | Step between ranks of a regular group.
-- @column   event_count BIGINT value count | Events.
-- @column   timed_count BIGINT value count | Those with a duration.
-- @column   numbered_count BIGINT value count | Those with a duration and a sequence number.
-- @source   product 6.1
SELECT
    source, rank, collective, operation, coll_source, pg_name, pg_desc, stated_size, ranks_key,
    rank_start, rank_stride,
    count(*) AS event_count,
    count(dur_ns) AS timed_count,
    count(CASE WHEN dur_ns IS NOT NULL THEN seq END) AS numbered_count
FROM _collective_events
GROUP BY
    source, rank, collective, operation, coll_source, pg_name, pg_desc, stated_size, ranks_key,
    rank_start, rank_stride
ORDER BY
    source, rank, collective, operation, coll_source, pg_name, pg_desc, stated_size, ranks_key,
    rank_start, rank_stride
