-- @comparison gpu_by_rank_cmp
-- @summary  What the devices of each rank do with their time, in both runs.
-- @requires gpu_timeline_by_rank
-- @reads    _run_pairs
-- @param    base VARCHAR NULL | Trace of the baseline.
-- @param    test VARCHAR NULL | Trace that is compared with it.
-- @param    threshold DOUBLE 1 | Changes up to this many percent are Similar.
-- @null     neither run has a rank with a device
-- @column   rank BIGINT dim - | Global rank.
-- @column   type VARCHAR dim - | Kind of time, as in gpu_timeline_by_rank.
-- @column   base_time_ms DOUBLE value ms lower | Time of the whole run in the baseline; NULL where
--           it lacks the rank.
-- @column   test_time_ms DOUBLE value ms lower | The same in the test.
-- @column   diff_time_ms DOUBLE value ms lower | Test - baseline.
-- @column   change_pct DOUBLE value pct lower | (test - baseline) / baseline x 100: negative is
--           less time; 0 where both are 0, NULL where only the baseline is.
-- @column   status VARCHAR value - | Better, Worse or Similar: less time is better. Similar: up to
--           the threshold, or less than 0.5 % of total_time. Per step where both runs have steps;
--           NULL where they have none and unlike numbers of kernels.
-- @column   time_ratio DOUBLE value ratio lower | Test / baseline.
-- @column   base_pct DOUBLE value pct | Share of total_time in the baseline.
-- @column   test_pct DOUBLE value pct | Share of total_time in the test.
-- @column   diff_pct DOUBLE value pct | Test - baseline, percentage points.
-- @column   base_step_ms DOUBLE value ms lower | Time per step in the baseline; NULL where a run
--           has no steps.
-- @column   test_step_ms DOUBLE value ms lower | The same in the test.
-- @column   step_change_pct DOUBLE value pct lower | (test - baseline) / baseline x 100 of the
--           times per step.
-- @column   effect_pct DOUBLE value pct lower | Change per step (of the run where one has no
--           steps), of the total_time of the baseline: positive is longer. NULL where the work is
--           unlike.
-- @heading  base_time_ms | baseline_time_ms
-- @heading  change_pct | percent_change (test - baseline)
-- @heading  time_ratio | ratio
-- @heading  base_pct | baseline_percent
-- @heading  test_pct | test_percent
-- @heading  diff_pct | diff_percent
-- @heading  base_step_ms | baseline_time_per_step_ms
-- @heading  test_step_ms | test_time_per_step_ms
-- @heading  step_change_pct | percent_change_per_step (test - baseline)
-- @heading  effect_pct | effect (% of total_time)
-- @caveat   Less time counts as better for every kind, also for busy_time and idle_time: read these
--           beside total_time.
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

    totals AS (
        SELECT rank, time_ms AS total_ms
        FROM base
        WHERE type = 'total_time'
    ),

    unit AS (
        SELECT is_stepped, is_alike, base_units, test_units
        FROM _run_pairs
        WHERE base = $base AND test = $test
    ),

    paired AS (
        SELECT
            coalesce(b.rank, t.rank) AS rank,
            coalesce(b.type, t.type) AS type,
            b.time_ms AS base_time_ms,
            t.time_ms AS test_time_ms,
            CASE
                WHEN b.time_ms = 0 AND t.time_ms = 0 THEN 0
                ELSE 100 * (t.time_ms - b.time_ms) / nullif(b.time_ms, 0)
            END AS change_pct,
            b.share_pct AS base_pct,
            t.share_pct AS test_pct
        FROM base AS b
        FULL OUTER JOIN test AS t ON t.rank = b.rank AND t.type = b.type
    ),

    -- Each run by its own number of steps.
    per_unit AS (
        SELECT
            p.rank, p.type, p.base_time_ms, p.test_time_ms, p.change_pct, p.base_pct, p.test_pct,
            u.is_stepped, u.is_alike,
            p.base_time_ms / coalesce(u.base_units, 1) AS base_unit_ms,
            p.test_time_ms / coalesce(u.test_units, 1) AS test_unit_ms,
            o.total_ms / coalesce(u.base_units, 1) AS total_ms
        FROM paired AS p
        LEFT JOIN totals AS o ON o.rank = p.rank
        LEFT JOIN unit AS u ON true
    ),

    judged AS (
        SELECT
            rank, type, base_time_ms, test_time_ms, change_pct, base_pct, test_pct, is_stepped, is_alike,
            base_unit_ms, test_unit_ms,
            100 * (test_unit_ms - base_unit_ms) / nullif(total_ms, 0) AS effect_pct,
            CASE
                WHEN base_unit_ms = 0 AND test_unit_ms = 0 THEN 0
                ELSE 100 * (test_unit_ms - base_unit_ms) / nullif(base_unit_ms, 0)
            END AS judged_pct
        FROM per_unit
    )

SELECT
    rank, type, base_time_ms, test_time_ms,
    test_time_ms - base_time_ms AS diff_time_ms,
    change_pct,
    CASE
        WHEN NOT is_alike OR test_unit_ms IS NULL OR base_unit_ms IS NULL THEN NULL
        WHEN abs(judged_pct) <= $threshold OR abs(effect_pct) < 0.5 THEN 'Similar'
        WHEN test_unit_ms < base_unit_ms THEN 'Better'
        ELSE 'Worse'
    END AS status,
    test_time_ms / nullif(base_time_ms, 0) AS time_ratio,
    base_pct, test_pct,
    test_pct - base_pct AS diff_pct,
    CASE WHEN is_stepped THEN base_unit_ms END AS base_step_ms,
    CASE WHEN is_stepped THEN test_unit_ms END AS test_step_ms,
    CASE WHEN is_stepped THEN judged_pct END AS step_change_pct,
    CASE WHEN coalesce(is_alike, true) THEN effect_pct END AS effect_pct
FROM judged
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
