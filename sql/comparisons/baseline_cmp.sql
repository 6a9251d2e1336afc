-- @comparison baseline_cmp
-- @summary  Metrics of a run against the median and the spread of the runs before it.
-- @requires metric_results
-- @param    test VARCHAR NULL | Trace that is compared; all others are the baseline.
-- @param    threshold DOUBLE 1 | Changes up to this many percent are Similar.
-- @null     no metric has a value in both
-- @caveat   The spread is 1.4826 times the median distance of the baseline's values from their
--           median: a few outliers do not move it; where more than half of them are equal, 1.2533
--           times their mean distance. A run of the same kind leaves the band by chance
--           in 2 of 100 cases where the baseline has 10 runs, and in 8 where it has 5.
-- @column   metric VARCHAR dim - | Metric.
-- @column   version BIGINT value - | Its version.
-- @column   unit VARCHAR value - | Unit of the value.
-- @column   better VARCHAR value - | Better direction: higher, lower or NULL.
-- @column   run_count BIGINT value count | Runs of the baseline that have a value.
-- @column   median DOUBLE value - | Their median.
-- @column   spread_pct DOUBLE value pct | Their spread in percent of the median; NULL for fewer
--           than five runs, and where the median is 0.
-- @column   low DOUBLE value - | Median less four times the spread, and the uncertainty of the
--           median; NULL for fewer than five runs.
-- @column   high DOUBLE value - | The same above it.
-- @column   test DOUBLE value - | Value of the run.
-- @column   change_pct DOUBLE value pct | (test - median) / |median| x 100; 0 where both are 0,
--           NULL where only the median is.
-- @column   is_outside BOOLEAN value - | Whether the value lies outside of the band; NULL for fewer
--           than five runs.
-- @column   status VARCHAR value - | Better or Worse by the better direction. Similar: up to the
--           threshold, or inside of the band. NULL without a direction.
-- @source   product 6.6; variance of a median pi / 2 times that of a mean
WITH
    base AS (
        SELECT
            place, metric, version, unit, better, value,
            median(value) OVER (PARTITION BY place) AS median
        FROM metric_results
        WHERE trace <> $test AND value IS NOT NULL
    ),

    spreads AS (
        SELECT
            place, any_value(metric) AS metric, any_value(version) AS version,
            any_value(unit) AS unit, any_value(better) AS better, count(*) AS run_count,
            any_value(median) AS median,
            CASE
                WHEN count(*) < 5 THEN NULL
                WHEN median(abs(value - median)) > 0 THEN 1.4826 * median(abs(value - median))
                ELSE sqrt(pi() / 2) * avg(abs(value - median))
            END AS spread
        FROM base
        GROUP BY place
    ),

    judged AS (
        SELECT
            s.place, s.metric, s.version, s.unit, s.better, s.run_count, s.median, s.spread,
            4 * s.spread * sqrt(1 + pi() / 2 / s.run_count) AS reach, t.value AS test,
            CASE WHEN t.value = s.median THEN 0
                ELSE 100 * (t.value - s.median) / nullif(abs(s.median), 0)
            END AS change_pct
        FROM spreads AS s
        INNER JOIN metric_results AS t
            ON t.place = s.place AND t.trace = $test AND t.value IS NOT NULL
    )

SELECT
    metric, version, unit, better, run_count, median,
    100 * spread / nullif(abs(median), 0) AS spread_pct,
    median - reach AS low, median + reach AS high, test, change_pct,
    abs(test - median) > reach AS is_outside,
    CASE
        WHEN better IS NULL THEN NULL
        WHEN abs(change_pct) <= $threshold OR abs(test - median) <= reach OR test = median
            THEN 'Similar'
        WHEN (test > median) = (better = 'higher') THEN 'Better'
        ELSE 'Worse'
    END AS status
FROM judged
ORDER BY
    CASE status WHEN 'Worse' THEN 1 WHEN 'Better' THEN 2 WHEN 'Similar' THEN 4 ELSE 3 END,
    abs(change_pct) DESC NULLS FIRST, place
