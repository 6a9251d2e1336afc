-- @view     gpu_timeline
-- @summary  What the devices do with their time, mean over ranks.
-- @requires gpu_timeline_by_rank
-- @null     no rank has a device
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   type VARCHAR dim - | Kind of time, as in gpu_timeline_by_rank.
-- @column   time_ms DOUBLE value ms lower | Mean over the ranks; a rank without this kind counts as
--           0.
-- @column   share_pct DOUBLE value pct | Mean over the ranks of their shares of total_time; a rank
--           whose events take no time has none.
-- @column   num_ranks BIGINT value count | Ranks.
-- @heading  time_ms | time ms
-- @heading  share_pct | percent
-- @source   metrics 7.1
WITH
    counts AS (
        SELECT
            trace, count(DISTINCT rank) AS num_ranks,
            count(DISTINCT rank) FILTER (WHERE share_pct IS NOT NULL) AS share_count
        FROM gpu_timeline_by_rank
        GROUP BY trace
    ),

    sums AS (
        SELECT
            trace, type,
            sum(time_ms ORDER BY rank) AS time_ms,
            sum(share_pct ORDER BY rank) AS share_pct
        FROM gpu_timeline_by_rank
        GROUP BY trace, type
    )

SELECT
    s.trace, s.type, s.time_ms / c.num_ranks AS time_ms, s.share_pct / c.share_count AS share_pct,
    c.num_ranks
FROM sums AS s
INNER JOIN counts AS c ON c.trace = s.trace
ORDER BY
    s.trace,
    list_position([
        'computation_time', 'exposed_comm_time', 'exposed_memcpy_time', 'exposed_graph_time',
        'busy_time', 'idle_time', 'total_time', 'total_comm_time', 'total_memcpy_time'
    ], s.type)
