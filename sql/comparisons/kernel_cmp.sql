-- @comparison kernel_cmp
-- @summary  Kernels of both runs by name and class: how many and how long in a step of a rank; the
--           largest effect first.
-- @requires _kernel_pairs
-- @param    base VARCHAR NULL | Trace of the baseline.
-- @param    test VARCHAR NULL | Trace that is compared with it.
-- @param    threshold DOUBLE 1 | Changes up to this many percent are Similar.
-- @null     neither run has kernels of a rank
-- @column   name VARCHAR dim - | Name of the kernel as recorded.
-- @column   class VARCHAR dim - | Class of kernel_patterns; other where no pattern matches.
-- @column   unit VARCHAR value - | What counts and times are of: step (of a rank, mean over ranks
--           and steps: what the steps launched) where kernels of both runs were launched in steps,
--           else run (of a rank, mean over ranks).
-- @column   found_in VARCHAR value - | both, baseline or test: the runs that have the kernel.
-- @column   base_kernel_count DOUBLE value count | Kernels in a unit of the baseline.
-- @column   test_kernel_count DOUBLE value count | The same in the test.
-- @column   base_total_ms DOUBLE value ms lower | Durations in a unit of the baseline, added up.
-- @column   test_total_ms DOUBLE value ms lower | The same in the test.
-- @column   diff_total_ms DOUBLE value ms lower | Test - baseline; a run without the kernel counts
--           as 0.
-- @column   total_change_pct DOUBLE value pct lower | (test - baseline) / baseline x 100; NULL
--           where only the test has the kernel.
-- @column   effect_pct DOUBLE value pct lower | The difference, of a step of the baseline (of the
--           window of a run): positive is longer; NULL for runs without steps and with unlike
--           numbers of kernels, where only the means compare.
-- @column   base_mean_us DOUBLE value us lower | Mean duration of a kernel in the baseline.
-- @column   test_mean_us DOUBLE value us lower | The same in the test.
-- @column   mean_change_pct DOUBLE value pct lower | (test - baseline) / baseline x 100.
-- @column   status VARCHAR value - | Better, Worse or Similar: less time is better. Similar: up to
--           the threshold, or less than 0.5 % of the step. NULL for runs without steps and with
--           unlike numbers of kernels.
-- @heading  total_change_pct | total_change_pct (test - baseline)
-- @heading  mean_change_pct | mean_change_pct (test - baseline)
-- @heading  effect_pct | effect (% of the step)
-- @caveat   Durations are added up whether or not something runs beside them: what is hidden
--           shortens no step. Communication waits for other ranks inside of its kernels.
-- @source   product 7: a comparison speaks per step where there are steps
SELECT
    name, class, unit, found_in, base_kernel_count, test_kernel_count, base_total_ms, test_total_ms,
    diff_total_ms, total_change_pct,
    CASE WHEN coalesce(is_alike, true) THEN effect_pct END AS effect_pct,
    base_mean_us, test_mean_us, mean_change_pct,
    CASE
        WHEN NOT is_alike THEN NULL
        WHEN abs(effect_pct) < 0.5 OR abs(total_change_pct) <= $threshold THEN 'Similar'
        WHEN diff_total_ms < 0 THEN 'Better'
        ELSE 'Worse'
    END AS status
FROM _kernel_pairs
WHERE base = $base AND test = $test AND level = 'kernel'
ORDER BY abs(diff_total_ms) DESC, name, class
