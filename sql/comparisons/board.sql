-- @comparison board
-- @summary  Metrics of all traces, with a grade where there are thresholds for it.
-- @requires metric_results
-- @reads    metric_thresholds
-- @null     no trace has a value
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   metric VARCHAR dim - | Metric.
-- @column   version BIGINT value - | Its version.
-- @column   unit VARCHAR value - | Unit of the value.
-- @column   better VARCHAR value - | Better direction: higher, lower or NULL.
-- @column   value DOUBLE value - | Value.
-- @column   grade VARCHAR value - | good, fair or poor by metric_thresholds; NULL without thresholds.
-- @column   good DOUBLE value - | Good from here on.
-- @column   poor DOUBLE value - | Poor beyond it.
-- @source   metrics 6, thresholds of the website
SELECT
    r.trace, r.metric, r.version, r.unit, r.better, r.value,
    CASE t.better
        WHEN 'higher' THEN CASE WHEN r.value >= t.good THEN 'good' WHEN r.value < t.poor THEN 'poor' ELSE 'fair' END
        WHEN 'lower' THEN CASE WHEN r.value <= t.good THEN 'good' WHEN r.value > t.poor THEN 'poor' ELSE 'fair' END
    END AS grade,
    t.good, t.poor
FROM metric_results AS r
LEFT JOIN metric_thresholds AS t ON t.metric = r.metric
WHERE r.value IS NOT NULL
ORDER BY r.trace, r.place, r.metric
