-- @comparison op_cmp
-- @summary  Operators of both runs by the kernels that they launch: how many and how long in a step
--           of a rank; the largest effect first.
-- @requires _kernel_pairs _unit_kernels
-- @param    base VARCHAR NULL | Trace of the baseline.
-- @param    test VARCHAR NULL | Trace that is compared with it.
-- @param    threshold DOUBLE 1 | Changes up to this many percent are Similar.
-- @null     a run has no kernel that names the operator that launched it
-- @column   op_name VARCHAR dim - | Innermost operator on the host; NULL for kernels that name
--           none.
-- @column   unit VARCHAR value - | What counts and times are of: step (of a rank, mean over ranks
--           and steps: what the steps launched) where kernels of both runs were launched in steps,
--           else run (of a rank, mean over ranks).
-- @column   found_in VARCHAR value - | both, baseline or test: the runs that have kernels of the
--           operator.
-- @column   base_kernel_count DOUBLE value count | Kernels in a unit of the baseline.
-- @column   test_kernel_count DOUBLE value count | The same in the test.
-- @column   base_total_ms DOUBLE value ms lower | Durations in a unit of the baseline, added up.
-- @column   test_total_ms DOUBLE value ms lower | The same in the test.
-- @column   diff_total_ms DOUBLE value ms lower | Test - baseline; a run without kernels of the
--           operator counts as 0.
-- @column   total_change_pct DOUBLE value pct lower | (test - baseline) / baseline x 100; NULL
--           where only the test has kernels of the operator.
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
WITH
    -- Where a run names no operators, those of the other are not gone.
    named AS (
        SELECT count(DISTINCT trace) = 2 AS is_named
        FROM _unit_kernels
        WHERE trace IN ($base, $test) AND op_name IS NOT NULL
    )

SELECT
    op_name, unit, found_in, base_kernel_count, test_kernel_count, base_total_ms, test_total_ms,
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
WHERE base = $base AND test = $test AND level = 'op' AND (SELECT is_named FROM named)
ORDER BY abs(diff_total_ms) DESC, op_name
