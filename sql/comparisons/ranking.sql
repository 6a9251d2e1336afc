-- @comparison ranking
-- @summary  All runs in order of a metric: by default the step time, where all have steps.
-- @requires metric_results
-- @param    metrics VARCHAR NULL | Metrics to rank by, the best last resort at the end, separated by commas.
-- @null     no metric with a direction has a value in every run
-- @column   place BIGINT dim - | Place, from 1; runs with equal values share one.
-- @column   trace VARCHAR dim - | Run.
-- @column   metric VARCHAR value - | Metric that ranks.
-- @column   value DOUBLE value - | Its value.
-- @column   unit VARCHAR value - | Unit of the value.
-- @column   behind_pct DOUBLE value pct lower | How far the value is from that of the first, in percent of the first; NULL where that is 0.
-- @source   product 2 compare: several tests
WITH
    runs AS (
        SELECT count(DISTINCT trace) AS run_count
        FROM metric_results
    ),

    complete AS (
        SELECT metric
        FROM metric_results
        WHERE better IS NOT NULL AND value IS NOT NULL
        GROUP BY metric
        HAVING count(*) = (SELECT run_count FROM runs)
    ),

    chosen AS (
        SELECT metric
        FROM complete
        WHERE list_contains(string_split($metrics, ','), metric)
        ORDER BY list_position(string_split($metrics, ','), metric)
        LIMIT 1
    ),

    ranked AS (
        SELECT
            r.trace, r.metric, r.value, r.unit,
            rank() OVER (ORDER BY CASE r.better WHEN 'higher' THEN -r.value ELSE r.value END) AS place,
            first_value(r.value) OVER (
                ORDER BY CASE r.better WHEN 'higher' THEN -r.value ELSE r.value END, r.trace
            ) AS best
        FROM metric_results AS r
        INNER JOIN chosen AS c ON c.metric = r.metric
    )

SELECT
    CAST(place AS BIGINT) AS place, trace, metric, value, unit,
    CASE WHEN value = best THEN 0 ELSE 100 * abs(value - best) / nullif(abs(best), 0) END AS behind_pct
FROM ranked
ORDER BY place, trace
