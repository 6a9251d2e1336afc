-- @comparison metric_cmp
-- @summary  Metrics of both runs with their change, what it is of a step, and what the steps of a
--           run vary anyway; the largest effect first.
-- @requires metric_results
-- @reads    metric_effects metric_noise _step_noise _run_pairs
-- @param    base VARCHAR NULL | Trace of the baseline.
-- @param    test VARCHAR NULL | Trace that is compared with it.
-- @param    threshold DOUBLE 1 | Changes up to this many percent are Similar.
-- @null     no metric has a value in either run
-- @column   metric VARCHAR dim - | Metric.
-- @column   version BIGINT value - | Its version.
-- @column   unit VARCHAR value - | Unit of the value.
-- @column   better VARCHAR value - | Better direction: higher, lower or NULL.
-- @column   base DOUBLE value - | Value in the baseline.
-- @column   test DOUBLE value - | Value in the test.
-- @column   diff DOUBLE value - | Test - baseline.
-- @column   change_pct DOUBLE value pct | (test - baseline) / |baseline| x 100; 0 where both are 0,
--           NULL where only the baseline is.
-- @column   effect_pct DOUBLE value pct lower | What the change is of a step of the baseline (of
--           its window where a run has no steps): positive is longer. Times of whole runs are taken
--           per step, shares times the step of their own run; NULL for what is no time of a step,
--           and for unlike work.
-- @column   status VARCHAR value - | Better, Worse or Similar by the better direction. Similar: up
--           to the threshold, within noise, or less than 0.5 % of the step. NULL without a
--           direction, and where a note says that nothing can be judged.
-- @column   noise_pct DOUBLE value pct | Standard error of the change that the spread over the
--           steps of both runs gives, in percent, to first order; NULL where the metric does not
--           rest on steps, or a run has fewer than two.
-- @column   within_noise BOOLEAN value - | Whether the change is less than twice the noise.
-- @column   base_steps BIGINT value - | Steps that the value of the baseline rests on; NULL where
--           it rests on none.
-- @column   test_steps BIGINT value - | The same of the test.
-- @column   note VARCHAR value - | What to know of the status: measurement (of the clocks, not of
--           the run), unlike work (whole recordings without steps, of unlike numbers of kernels: no
--           verdict), within noise, trifle (less than 0.5 % of the step), other way (a share of
--           steps of unlike length: its time moved the other way), per step (runs of unlike numbers
--           of steps: judged per step), one step (a value rests on a single step: its noise is not
--           known), whole run (no steps to compare by).
-- @source   product 6.6 and 7; noise: standard errors of the two means, as shares of the means,
--           added in squares
WITH
    base AS (
        SELECT place, metric, version, unit, better, value
        FROM metric_results
        WHERE trace = $base
    ),

    test AS (
        SELECT place, metric, version, unit, better, value
        FROM metric_results
        WHERE trace = $test
    ),

    noise AS (
        SELECT
            n.metric, b.step_count AS base_steps, t.step_count AS test_steps,
            100 * sqrt(
                power(b.std / b.mean, 2) / b.step_count + power(t.std / t.mean, 2) / t.step_count
            ) AS noise_pct
        FROM metric_noise AS n
        INNER JOIN _step_noise AS b ON b.quantity = n.quantity AND b.trace = $base AND b.mean > 0
        INNER JOIN _step_noise AS t ON t.quantity = n.quantity AND t.trace = $test AND t.mean > 0
    ),

    unit AS (
        SELECT
            is_stepped, is_alike, base_units, test_units, base_unit_ns, test_unit_ns, base_devices,
            test_devices
        FROM _run_pairs
        WHERE base = $base AND test = $test
    ),

    paired AS (
        SELECT
            coalesce(b.place, t.place) AS place,
            coalesce(b.metric, t.metric) AS metric,
            coalesce(b.version, t.version) AS version,
            coalesce(b.unit, t.unit) AS unit,
            coalesce(b.better, t.better) AS better,
            b.value AS base,
            t.value AS test,
            -- To nanoseconds, and to parts of one.
            CASE coalesce(b.unit, t.unit)
                WHEN 's' THEN 1e9 WHEN 'ms' THEN 1e6 WHEN 'us' THEN 1e3 WHEN 'pct' THEN 0.01 ELSE 1
            END AS scale,
            CASE
                WHEN b.value = 0 AND t.value = 0 THEN 0
                ELSE 100 * (t.value - b.value) / nullif(abs(b.value), 0)
            END AS change_pct
        FROM base AS b
        FULL OUTER JOIN test AS t ON t.metric = b.metric AND t.version = b.version
        WHERE b.value IS NOT NULL OR t.value IS NOT NULL
    ),

    -- The time of a unit that a value stands for.
    timed AS (
        SELECT
            p.place, p.metric, p.version, p.unit, p.better, p.base, p.test, p.change_pct, e.basis,
            n.noise_pct, n.base_steps, n.test_steps,
            u.is_stepped, u.is_alike, u.base_units, u.test_units, u.base_unit_ns,
            CASE e.basis
                WHEN 'step' THEN p.scale * p.base
                WHEN 'run' THEN p.scale * p.base / u.base_units
                WHEN 'device_run' THEN p.scale * p.base / u.base_units / u.base_devices
                WHEN 'rate' THEN u.base_unit_ns
                WHEN 'share' THEN p.scale * p.base * u.base_unit_ns
                WHEN 'busy' THEN (1 - p.scale * p.base) * u.base_unit_ns
            END AS base_ns,
            CASE e.basis
                WHEN 'step' THEN p.scale * p.test
                WHEN 'run' THEN p.scale * p.test / u.test_units
                WHEN 'device_run' THEN p.scale * p.test / u.test_units / u.test_devices
                WHEN 'rate' THEN u.base_unit_ns * p.base / nullif(p.test, 0)
                WHEN 'share' THEN p.scale * p.test * u.test_unit_ns
                WHEN 'busy' THEN (1 - p.scale * p.test) * u.test_unit_ns
            END AS test_ns
        FROM paired AS p
        LEFT JOIN unit AS u ON true
        LEFT JOIN metric_effects AS e ON e.metric = p.metric
        LEFT JOIN noise AS n ON n.metric = p.metric AND p.base IS NOT NULL AND p.test IS NOT NULL
    ),

    changed AS (
        SELECT
            place, metric, version, unit, better, base, test, change_pct, basis, noise_pct, base_steps,
            test_steps, is_stepped, is_alike,
            abs(change_pct) < 2 * noise_pct AS within_noise,
            100 * (test_ns - base_ns) / base_unit_ns AS effect_pct,
            basis IN ('run', 'device_run') AS is_of_run,
            basis IN ('run', 'device_run') AND base_units <> test_units AS is_per_step,
            -- Runs of unlike numbers of steps are judged by what a step takes.
            CASE
                WHEN basis IN ('run', 'device_run') AND base_units <> test_units
                    THEN 100 * (test_ns - base_ns) / nullif(base_ns, 0)
                ELSE change_pct
            END AS judged_pct
        FROM timed
    ),

    gained AS (
        SELECT
            place, metric, version, unit, better, base, test, change_pct, basis, noise_pct, base_steps,
            test_steps, is_stepped, is_alike, within_noise, effect_pct, is_of_run, is_per_step,
            coalesce(
                CASE better WHEN 'higher' THEN judged_pct WHEN 'lower' THEN 0 - judged_pct END,
                CASE WHEN better IS NOT NULL THEN 0 - effect_pct END
            ) AS gain_pct
        FROM changed
    ),

    weighed AS (
        SELECT
            place, metric, version, unit, better, base, test, change_pct, noise_pct, base_steps,
            test_steps, within_noise, effect_pct, gain_pct, is_per_step, is_alike,
            gain_pct IS NULL OR coalesce(basis = 'measurement', false) AS has_no_status,
            coalesce(basis = 'measurement', false) AS is_measurement,
            coalesce(is_of_run AND NOT is_alike, false) AS is_unlike,
            coalesce(is_of_run AND NOT is_stepped, false) AS is_whole_run,
            abs(gain_pct) > $threshold AS is_beyond,
            coalesce(abs(effect_pct) < 0.5, false) AS is_trifle,
            coalesce(basis IN ('share', 'busy') AND sign(gain_pct) = sign(effect_pct), false)
                AS is_other_way
        FROM gained
    )

SELECT
    metric, version, unit, better, base, test, test - base AS diff, change_pct,
    CASE WHEN coalesce(is_alike, true) THEN effect_pct END AS effect_pct,
    CASE
        WHEN has_no_status OR is_unlike THEN NULL
        WHEN NOT is_beyond OR coalesce(within_noise, false) OR is_trifle OR is_other_way THEN 'Similar'
        WHEN gain_pct > 0 THEN 'Better'
        ELSE 'Worse'
    END AS status,
    CASE WHEN change_pct IS NOT NULL THEN noise_pct END AS noise_pct,
    within_noise,
    base_steps, test_steps,
    CASE
        WHEN base IS NULL OR test IS NULL THEN NULL
        WHEN is_measurement THEN 'measurement'
        WHEN is_unlike THEN 'unlike work'
        WHEN gain_pct IS NULL THEN NULL
        WHEN is_per_step THEN 'per step'
        WHEN NOT is_beyond THEN NULL
        WHEN within_noise THEN 'within noise'
        WHEN is_trifle THEN 'trifle'
        WHEN is_other_way THEN 'other way'
        WHEN least(base_steps, test_steps) = 1 THEN 'one step'
        WHEN is_whole_run THEN 'whole run'
    END AS note
FROM weighed
ORDER BY abs(effect_pct) DESC NULLS LAST, abs(change_pct) DESC NULLS LAST, place, metric
