-- @comparison gpu_by_rank_cmp
-- @summary  What the devices of each rank do with their time, in both runs.
-- @requires gpu_timeline_by_rank
-- @param    base VARCHAR NULL | Trace of the baseline.
-- @param    test VARCHAR NULL | Trace that is compared with it.
-- @param    threshold DOUBLE 1 | Changes up to this many percent are Similar.
-- @null     neither run has a rank with a device
-- @column   rank BIGINT dim - | Global rank.
-- @column   type VARCHAR dim - | Kind of time, as in gpu_timeline_by_rank.
-- @column   base_time_ms DOUBLE value ms lower | Time in the baseline; NULL where it lacks the rank.
-- @column   test_time_ms DOUBLE value ms lower | Time in the test.
-- @column   diff_time_ms DOUBLE value ms lower | Test - baseline.
-- @column   improvement_pct DOUBLE value pct higher | (baseline - test) / baseline x 100: positive is less time; 0 where both are 0, NULL where only the baseline is.
-- @column   status VARCHAR value - | Better, Worse or Similar: improvement_pct beyond the threshold.
-- @column   time_ratio DOUBLE value ratio lower | Test / baseline.
-- @column   base_pct DOUBLE value pct | Share of total_time in the baseline.
-- @column   test_pct DOUBLE value pct | Share of total_time in the test.
-- @column   diff_pct DOUBLE value pct | Test - baseline, percentage points.
-- @heading  base_time_ms | baseline_time_ms
-- @heading  improvement_pct | percent_change
-- @heading  time_ratio | ratio
-- @heading  base_pct | baseline_percent
-- @heading  test_pct | test_percent
-- @heading  diff_pct | diff_percent
-- @caveat   Less time counts as better for every kind, also for busy_time and idle_time: read these beside total_time.
-- @source   metrics 7.3 GPU_ByRank_Cmp; a rank or kind that one run lacks is kept
WITH
    base AS (
        SELECT rank, type, time_ms, share_pct
        FROM gpu_timeline_by_rank
        WHERE trace = $base
    ),

    test AS (
        SELECT rank, type, time_ms, share_pct
        FROM gpu_timeline_by_rank
        WHERE trace = $test
    ),

    paired AS (
        SELECT
            coalesce(b.rank, t.rank) AS rank,
            coalesce(b.type, t.type) AS type,
            b.time_ms AS base_time_ms,
            t.time_ms AS test_time_ms,
            CASE
                WHEN b.time_ms = 0 AND t.time_ms = 0 THEN 0
                ELSE 100 * (b.time_ms - t.time_ms) / nullif(b.time_ms, 0)
            END AS improvement_pct,
            b.share_pct AS base_pct,
            t.share_pct AS test_pct
        FROM base AS b
        FULL OUTER JOIN test AS t ON t.rank = b.rank AND t.type = b.type
    )

SELECT
    rank, type, base_time_ms, test_time_ms,
    test_time_ms - base_time_ms AS diff_time_ms,
    improvement_pct,
    CASE
        WHEN improvement_pct > $threshold THEN 'Better'
        WHEN improvement_pct < -$threshold THEN 'Worse'
        WHEN improvement_pct IS NOT NULL THEN 'Similar'
    END AS status,
    test_time_ms / nullif(base_time_ms, 0) AS time_ratio,
    base_pct, test_pct,
    test_pct - base_pct AS diff_pct
FROM paired
ORDER BY
    rank,
    CASE type
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
