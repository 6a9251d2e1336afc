-- @view     gpu_timeline
-- @summary  What the devices do with their time, mean over ranks.
-- @requires gpu_timeline_by_rank
-- @null     no rank has a device
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   type VARCHAR dim - | Kind of time, as in gpu_timeline_by_rank.
-- @column   time_ms DOUBLE value ms lower | Mean over the ranks; a rank without this kind counts as
--           0.
-- @column   share_pct DOUBLE value pct | Mean over the ranks of their shares of total_time.
-- @column   num_ranks BIGINT value count | Ranks.
-- @heading  time_ms | time ms
-- @heading  share_pct | percent
-- @source   metrics 7.1
WITH
    counts AS (
        SELECT trace, count(DISTINCT rank) AS num_ranks
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
    s.trace, s.type, s.time_ms / c.num_ranks AS time_ms, s.share_pct / c.num_ranks AS share_pct,
    c.num_ranks
FROM sums AS s
INNER JOIN counts AS c ON c.trace = s.trace
ORDER BY
    s.trace,
    CASE s.type
        WHEN 'computation_time' THEN 1
        WHEN 'exposed_comm_time' THEN 2
        WHEN 'exposed_memcpy_time' THEN 3
        WHEN 'exposed_graph_time' THEN 4
        WHEN 'busy_time' THEN 5
        WHEN 'idle_time' THEN 6
        WHEN 'total_time' THEN 7
        WHEN 'total_comm_time' THEN 8
        ELSE 9
    END
