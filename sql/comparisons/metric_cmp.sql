-- @comparison metric_cmp
-- @summary  Metrics of both runs, with the change in percent and what the steps of a run vary anyway.
-- @requires metric_results
-- @reads    metric_noise _step_noise
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
-- @column   change_pct DOUBLE value pct | (test - baseline) / |baseline| x 100; 0 where both are 0, NULL where only the baseline is.
-- @column   improvement_pct DOUBLE value pct higher | The same, positive = better by the direction of the metric; NULL without one.
-- @column   status VARCHAR value - | Better, Worse or Similar: improvement_pct beyond the threshold; NULL without it.
-- @column   noise_pct DOUBLE value pct | Standard error of the change that the spread over the steps of both runs gives, in percent, to first order; NULL where the metric does not rest on steps, or a run has fewer than two.
-- @column   within_noise BOOLEAN value - | Whether the change is less than twice the noise.
-- @source   product 6.6; noise: standard errors of the two means, as shares of the means, added in squares
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
            n.metric,
            100 * sqrt(
                power(b.std / b.mean, 2) / b.step_count + power(t.std / t.mean, 2) / t.step_count
            ) AS noise_pct
        FROM metric_noise AS n
        INNER JOIN _step_noise AS b ON b.quantity = n.quantity AND b.trace = $base AND b.mean > 0
        INNER JOIN _step_noise AS t ON t.quantity = n.quantity AND t.trace = $test AND t.mean > 0
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
            CASE
                WHEN b.value = 0 AND t.value = 0 THEN 0
                ELSE 100 * (t.value - b.value) / nullif(abs(b.value), 0)
            END AS change_pct
        FROM base AS b
        FULL OUTER JOIN test AS t ON t.metric = b.metric AND t.version = b.version
    ),

    improved AS (
        SELECT
            p.place, p.metric, p.version, p.unit, p.better, p.base, p.test, p.change_pct, n.noise_pct,
            CASE p.better WHEN 'higher' THEN p.change_pct WHEN 'lower' THEN 0 - p.change_pct END
                AS improvement_pct
        FROM paired AS p
        LEFT JOIN noise AS n ON n.metric = p.metric
        WHERE p.base IS NOT NULL OR p.test IS NOT NULL
    )

SELECT
    metric, version, unit, better, base, test, test - base AS diff, change_pct, improvement_pct,
    CASE
        WHEN improvement_pct > $threshold THEN 'Better'
        WHEN improvement_pct < -$threshold THEN 'Worse'
        WHEN improvement_pct IS NOT NULL THEN 'Similar'
    END AS status,
    CASE WHEN change_pct IS NOT NULL THEN noise_pct END AS noise_pct,
    abs(change_pct) < 2 * noise_pct AS within_noise
FROM improved
ORDER BY place, metric
