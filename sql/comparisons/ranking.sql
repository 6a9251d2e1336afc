-- @comparison ranking
-- @summary  All runs in order of a metric: by default the step time, where all have steps.
-- @requires metric_results
-- @reads    metric_noise _step_noise
-- @param    metrics VARCHAR NULL | Metrics to rank by, the best last resort at the end, separated
--           by commas. Those that rest on several steps of every run go first, then those of one
--           step.
-- @null     no metric with a direction has a value in every run
-- @column   place BIGINT dim - | Place, from 1; runs with equal values share one.
-- @column   trace VARCHAR dim - | Run.
-- @column   metric VARCHAR value - | Metric that ranks.
-- @column   value DOUBLE value - | Its value.
-- @column   unit VARCHAR value - | Unit of the value.
-- @column   behind_pct DOUBLE value pct lower | How far the value is from that of the first, in
--           percent of the first; NULL where that is 0.
-- @column   step_count BIGINT value count | Steps that the value rests on; NULL where it rests on
--           none. The place of a value of one step may be chance.
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

    step_counts AS (
        SELECT n.metric, s.trace, s.step_count
        FROM metric_noise AS n
        INNER JOIN _step_noise AS s ON s.quantity = n.quantity
    ),

    least_steps AS (
        SELECT metric, min(step_count) AS step_count
        FROM step_counts
        GROUP BY metric
    ),

    -- A single step says less than several; what is of no step may be of unlike work.
    chosen AS (
        SELECT c.metric
        FROM complete AS c
        LEFT JOIN least_steps AS l ON l.metric = c.metric
        WHERE list_contains(string_split($metrics, ','), c.metric)
        ORDER BY
            CASE WHEN l.step_count > 1 THEN 1 WHEN l.step_count = 1 THEN 2 ELSE 3 END,
            list_position(string_split($metrics, ','), c.metric)
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
    CAST(r.place AS BIGINT) AS place, r.trace, r.metric, r.value, r.unit,
    CASE WHEN r.value = r.best THEN 0 ELSE 100 * abs(r.value - r.best) / nullif(abs(r.best), 0) END
        AS behind_pct,
    s.step_count
FROM ranked AS r
LEFT JOIN step_counts AS s ON s.metric = r.metric AND s.trace = r.trace
ORDER BY place, r.trace
