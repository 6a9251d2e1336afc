-- @comparison board
-- @summary  Metrics of all traces, with a grade where there are thresholds for it.
-- @requires metric_results
-- @reads    metric_thresholds cards ranks
-- @null     no trace has a value
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   metric VARCHAR dim - | Metric.
-- @column   version BIGINT value - | Its version.
-- @column   unit VARCHAR value - | Unit of the value.
-- @column   better VARCHAR value - | Better direction: higher, lower or NULL.
-- @column   value DOUBLE value - | Value.
-- @column   grade VARCHAR value - | good, fair or poor by metric_thresholds; NULL without
--           thresholds, and where they are of a median and the trace is the only one of its kind,
--           or of no known kind.
-- @column   median DOUBLE value - | Median over the peers, this trace among them; NULL where the
--           grade does not rest on it.
-- @column   peer_count BIGINT value count | Traces of the same model (as the cards say) on as many
--           ranks of the same device that have the metric, this one among them; NULL likewise.
-- @column   good DOUBLE value - | Good from here on, in the unit of the value.
-- @column   poor DOUBLE value - | Poor beyond it.
-- @source   metrics 6
WITH
    job_cards AS (
        SELECT
            trace,
            first(model_family ORDER BY path) FILTER (WHERE model_family IS NOT NULL) AS model,
            first(xpu_model ORDER BY path) FILTER (WHERE xpu_model IS NOT NULL) AS xpu_model
        FROM cards
        GROUP BY trace
    ),

    jobs AS (
        SELECT
            trace,
            first(device_name ORDER BY rank, device_name) FILTER (WHERE device_name IS NOT NULL)
                AS device_name,
            coalesce(max(world_size), count(DISTINCT rank)) AS job_ranks
        FROM ranks
        GROUP BY trace
    ),

    valued AS (
        SELECT
            r.trace, r.place, r.metric, r.version, r.unit, r.better, r.value,
            t.basis, t.better AS graded_by, t.good, t.poor,
            c.model, coalesce(j.device_name, c.xpu_model) AS device_name, j.job_ranks
        FROM metric_results AS r
        LEFT JOIN metric_thresholds AS t ON t.metric = r.metric
        LEFT JOIN jobs AS j ON j.trace = r.trace
        LEFT JOIN job_cards AS c ON c.trace = r.trace
        WHERE r.value IS NOT NULL
    ),

    -- A job of which something is not known joins with no median: NULL equals nothing.
    medians AS (
        SELECT
            metric, version, model, device_name, job_ranks,
            count(*) AS peer_count,
            median(value) AS median
        FROM valued
        WHERE basis = 'median'
        GROUP BY metric, version, model, device_name, job_ranks
        HAVING count(*) > 1
    ),

    limited AS (
        SELECT
            v.trace, v.place, v.metric, v.version, v.unit, v.better, v.value, v.graded_by,
            m.median, m.peer_count,
            v.good * CASE v.basis WHEN 'median' THEN m.median ELSE 1 END AS good,
            v.poor * CASE v.basis WHEN 'median' THEN m.median ELSE 1 END AS poor
        FROM valued AS v
        LEFT JOIN medians AS m
            ON m.metric = v.metric
            AND m.version = v.version
            AND m.model = v.model
            AND m.device_name = v.device_name
            AND m.job_ranks = v.job_ranks
    )

SELECT
    trace, metric, version, unit, better, value,
    CASE
        WHEN good IS NULL THEN NULL
        WHEN graded_by = 'higher'
            THEN CASE WHEN value >= good THEN 'good' WHEN value < poor THEN 'poor' ELSE 'fair' END
        ELSE CASE WHEN value <= good THEN 'good' WHEN value > poor THEN 'poor' ELSE 'fair' END
    END AS grade,
    median, peer_count, good, poor
FROM limited
ORDER BY trace, place, metric
