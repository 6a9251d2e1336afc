-- @comparison summary_dashboard
-- @summary  The comparison at a glance: time of the devices, then the metrics of both runs.
-- @requires metric_results
-- @reads    gpu_timeline
-- @param    base VARCHAR NULL | Trace of the baseline.
-- @param    test VARCHAR NULL | Trace that is compared with it.
-- @param    threshold DOUBLE 1 | Changes up to this many percent are Similar.
-- @null     neither run has devices or metrics
-- @column   metric VARCHAR dim - | GPU_ and the kind of time (ms, mean over ranks), or a metric with its unit.
-- @column   base DOUBLE value - | Value in the baseline.
-- @column   test DOUBLE value - | Value in the test.
-- @column   improvement_pct DOUBLE value pct higher | Change in percent of the baseline, positive = better.
-- @column   status VARCHAR value - | Better, Worse or Similar: improvement beyond the threshold.
-- @heading  metric | Metric
-- @heading  base | Baseline
-- @heading  test | Test
-- @heading  improvement_pct | Improvement (%)
-- @heading  status | Status
-- @source   metrics 7.3 Summary_Dashboard, with one threshold everywhere
WITH
    everything AS (
        SELECT
            trace, 0 AS part,
            CASE type
                WHEN 'total_time' THEN 1
                WHEN 'computation_time' THEN 2
                WHEN 'exposed_comm_time' THEN 3
                WHEN 'exposed_memcpy_time' THEN 4
                WHEN 'exposed_graph_time' THEN 5
                WHEN 'idle_time' THEN 6
                WHEN 'busy_time' THEN 7
                WHEN 'total_comm_time' THEN 8
                ELSE 9
            END AS place,
            'GPU_' || type AS metric, 'lower' AS better, time_ms AS value
        FROM gpu_timeline
        UNION ALL
        SELECT trace, 1, place, metric || coalesce(' (' || unit || ')', ''), better, value
        FROM metric_results
        WHERE better IS NOT NULL
    ),

    base AS (
        SELECT part, place, metric, better, value
        FROM everything
        WHERE trace = $base
    ),

    test AS (
        SELECT part, place, metric, better, value
        FROM everything
        WHERE trace = $test
    ),

    paired AS (
        SELECT
            coalesce(b.part, t.part) AS part,
            coalesce(b.place, t.place) AS place,
            coalesce(b.metric, t.metric) AS metric,
            b.value AS base,
            t.value AS test,
            CASE
                WHEN b.value = 0 AND t.value = 0 THEN 0
                WHEN coalesce(b.better, t.better) = 'higher'
                    THEN 100 * (t.value - b.value) / nullif(abs(b.value), 0)
                ELSE 100 * (b.value - t.value) / nullif(abs(b.value), 0)
            END AS improvement_pct
        FROM base AS b
        FULL OUTER JOIN test AS t ON t.part = b.part AND t.place = b.place AND t.metric = b.metric
    )

SELECT
    metric, base, test, improvement_pct,
    CASE
        WHEN improvement_pct > $threshold THEN 'Better'
        WHEN improvement_pct < -$threshold THEN 'Worse'
        WHEN improvement_pct IS NOT NULL THEN 'Similar'
    END AS status
FROM paired
WHERE base IS NOT NULL OR test IS NOT NULL
ORDER BY part, place, metric
