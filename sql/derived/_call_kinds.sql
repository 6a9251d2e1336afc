-- @derived  _call_kinds
-- @summary  Kinds of calls of each profiler, and of which every rank has the same number.
-- @requires _call_counts
-- @reads    ranks
-- @column   source VARCHAR value - | Profiler.
-- @column   collective VARCHAR value - | Kind of call.
-- @column   world_size BIGINT value - | Ranks of the job.
-- @column   even_size BIGINT value - | The same where every ingested rank has as many of them.
-- @source   metrics 1.4
WITH
    worlds AS (
        SELECT source, max(world_size) AS world_size, count(DISTINCT rank) AS rank_count
        FROM ranks
        GROUP BY source
    ),

    per_rank AS (
        SELECT source, collective, rank, sum(event_count) AS call_count
        FROM _call_counts
        GROUP BY source, collective, rank
    )

SELECT
    p.source, p.collective, w.world_size,
    CASE
        WHEN p.collective NOT IN ('unknown', 'send_recv')
            AND count(*) = w.rank_count AND min(p.call_count) = max(p.call_count)
            THEN w.world_size
    END AS even_size
FROM per_rank AS p
INNER JOIN worlds AS w ON w.source = p.source
GROUP BY p.source, p.collective, w.world_size, w.rank_count
