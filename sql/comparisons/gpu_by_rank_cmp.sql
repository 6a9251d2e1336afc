-- @comparison gpu_by_rank_cmp
-- @summary  What the devices of each rank do with their time, in both runs.
-- @requires _gpu_pairs gpu_timeline_by_rank
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
FROM _gpu_pairs
WHERE base = $base AND test = $test AND NOT is_mean
ORDER BY rank, place
