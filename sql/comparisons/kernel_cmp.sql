-- @comparison kernel_cmp
-- @summary  Kernels of both runs by name and class: how many and how long in a step of a rank; the
--           largest effect first.
-- @requires _unit_kernels
-- @reads    _run_units
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
WITH
    -- Steps count where both runs have kernels that they launched.
    basis AS (
        SELECT count(DISTINCT trace) = 2 AS is_stepped
        FROM _unit_kernels
        WHERE trace IN ($base, $test) AND step_kernel_count > 0
    ),

    runs AS (
        SELECT
            u.trace, b.is_stepped, u.kernel_count,
            CASE WHEN b.is_stepped THEN u.rank_step_count ELSE u.rank_count END AS unit_count,
            u.device_count * CASE WHEN b.is_stepped THEN u.mean_step_ns ELSE u.mean_window_ns END
                AS unit_ns
        FROM _run_units AS u
        CROSS JOIN basis AS b
        WHERE u.trace IN ($base, $test)
    ),

    ground AS (
        SELECT
            b.unit_ns, b.is_stepped,
            b.is_stepped OR abs(t.kernel_count / nullif(b.kernel_count, 0) - 1) <= 0.01 AS is_alike
        FROM runs AS b
        INNER JOIN runs AS t ON t.trace = $test
        WHERE b.trace = $base
    ),

    sums AS (
        SELECT
            k.trace, k.name, k.kernel_class AS class,
            CAST(sum(CASE WHEN r.is_stepped THEN k.step_kernel_count ELSE k.kernel_count END) AS DOUBLE)
                AS kernels,
            CAST(sum(CASE WHEN r.is_stepped THEN k.step_dur_ns ELSE k.dur_ns END) AS DOUBLE) AS dur_ns,
            any_value(r.unit_count) AS unit_count
        FROM _unit_kernels AS k
        INNER JOIN runs AS r ON r.trace = k.trace
        GROUP BY k.trace, k.name, k.kernel_class
    ),

    means AS (
        SELECT
            trace, name, class,
            kernels / unit_count AS kernel_count,
            dur_ns / unit_count / 1e6 AS total_ms,
            dur_ns / kernels / 1e3 AS mean_us
        FROM sums
        WHERE kernels > 0
    ),

    base AS (
        SELECT name, class, kernel_count, total_ms, mean_us
        FROM means
        WHERE trace = $base
    ),

    test AS (
        SELECT name, class, kernel_count, total_ms, mean_us
        FROM means
        WHERE trace = $test
    ),

    paired AS (
        SELECT
            coalesce(b.name, t.name) AS name,
            coalesce(b.class, t.class) AS class,
            CASE WHEN t.total_ms IS NULL THEN 'baseline' WHEN b.total_ms IS NULL THEN 'test' ELSE 'both' END
                AS found_in,
            b.kernel_count AS base_kernel_count,
            t.kernel_count AS test_kernel_count,
            b.total_ms AS base_total_ms,
            t.total_ms AS test_total_ms,
            coalesce(t.total_ms, 0) - coalesce(b.total_ms, 0) AS diff_total_ms,
            b.mean_us AS base_mean_us,
            t.mean_us AS test_mean_us
        FROM base AS b
        FULL OUTER JOIN test AS t ON t.name IS NOT DISTINCT FROM b.name AND t.class = b.class
    ),

    judged AS (
        SELECT
            p.name, p.class, p.found_in, p.base_kernel_count, p.test_kernel_count, p.base_total_ms,
            p.test_total_ms, p.diff_total_ms, p.base_mean_us, p.test_mean_us, g.is_stepped, g.is_alike,
            100 * p.diff_total_ms / nullif(p.base_total_ms, 0) AS total_change_pct,
            100 * p.diff_total_ms / nullif(g.unit_ns / 1e6, 0) AS effect_pct
        FROM paired AS p
        CROSS JOIN ground AS g
    )

SELECT
    name, class,
    CASE WHEN is_stepped THEN 'step' ELSE 'run' END AS unit,
    found_in, base_kernel_count, test_kernel_count, base_total_ms, test_total_ms, diff_total_ms,
    total_change_pct,
    CASE WHEN coalesce(is_alike, true) THEN effect_pct END AS effect_pct,
    base_mean_us, test_mean_us,
    100 * (test_mean_us - base_mean_us) / nullif(base_mean_us, 0) AS mean_change_pct,
    CASE
        WHEN NOT is_alike THEN NULL
        WHEN abs(effect_pct) < 0.5 OR abs(total_change_pct) <= $threshold THEN 'Similar'
        WHEN diff_total_ms < 0 THEN 'Better'
        ELSE 'Worse'
    END AS status
FROM judged
ORDER BY abs(diff_total_ms) DESC, name, class
