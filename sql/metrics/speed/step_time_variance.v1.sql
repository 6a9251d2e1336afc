-- @metric   step_time_variance
-- @version  1
-- @area     speed
-- @summary  How much step times vary, over the steps of a rank and over the ranks.
-- @grain    trace
-- @requires steps
-- @reads    _step_times
-- @value    step_time_cv_pct
-- @answer   'step ' || slowest_step || ' is slowest'
-- @alias    time_variance step_time_cv
-- @null     no rank has two steps that count, or they take no time
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   step_time_cv_pct DOUBLE value pct lower | Standard deviation (n - 1) of the step times
--           of a rank, of their mean; mean over ranks.
-- @column   step_time_std_ms DOUBLE value ms lower | That standard deviation, mean over ranks.
-- @column   rank_std_ms DOUBLE value ms lower | Standard deviation (n - 1) of the mean step time
--           over ranks; NULL for one rank.
-- @column   rank_cv_pct DOUBLE value pct lower | The same, of the mean.
-- @column   mean_step_time_ms DOUBLE value ms | Mean step time of a rank, mean over ranks.
-- @column   slowest_step BIGINT value - | Step whose mean over ranks is longest.
-- @column   slowest_step_ms DOUBLE value ms | That mean.
-- @column   per_rank LIST value - | Steps, mean, standard deviation, least and longest step of each
--           rank.
-- @column   per_step LIST value - | Mean, least and longest time over ranks of each step.
-- @caveat   First and last step are left out when there are more than two, as in avg_step_time.
-- @source   metrics 2.I time_variance
WITH
    times AS (
        SELECT trace, rank, step, time_ns / 1e6 AS time_ms
        FROM _step_times
    ),

    ranks AS (
        SELECT
            trace, rank, count(*) AS step_count,
            avg(time_ms ORDER BY step) AS mean_ms,
            stddev_samp(time_ms ORDER BY step) AS std_ms,
            min(time_ms) AS min_ms,
            max(time_ms) AS max_ms
        FROM times
        GROUP BY trace, rank
    ),

    rank_totals AS (
        SELECT
            trace,
            avg(100.0 * std_ms / nullif(mean_ms, 0) ORDER BY rank) AS step_time_cv_pct,
            avg(std_ms ORDER BY rank) AS step_time_std_ms,
            stddev_samp(mean_ms ORDER BY rank) AS rank_std_ms,
            100.0 * stddev_samp(mean_ms ORDER BY rank) / nullif(avg(mean_ms ORDER BY rank), 0) AS rank_cv_pct,
            avg(mean_ms ORDER BY rank) AS mean_step_time_ms,
            array_agg({
                rank: rank, steps: step_count, mean_ms: mean_ms, std_ms: std_ms, min_ms: min_ms, max_ms: max_ms
            } ORDER BY rank) AS per_rank
        FROM ranks
        GROUP BY trace
    ),

    steps_over_ranks AS (
        SELECT
            trace, step, avg(time_ms ORDER BY rank) AS mean_ms, min(time_ms) AS min_ms, max(time_ms) AS max_ms
        FROM times
        GROUP BY trace, step
    ),

    step_totals AS (
        SELECT
            trace,
            array_agg({step: step, mean_ms: mean_ms, min_ms: min_ms, max_ms: max_ms} ORDER BY step) AS per_step
        FROM steps_over_ranks
        GROUP BY trace
    ),

    slowest AS (
        SELECT trace, step, mean_ms
        FROM steps_over_ranks
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY mean_ms DESC, step) = 1
    )

SELECT
    r.trace, r.step_time_cv_pct, r.step_time_std_ms, r.rank_std_ms, r.rank_cv_pct,
    r.mean_step_time_ms, l.step AS slowest_step, l.mean_ms AS slowest_step_ms, r.per_rank, s.per_step
FROM rank_totals AS r
INNER JOIN step_totals AS s ON s.trace = r.trace
INNER JOIN slowest AS l ON l.trace = r.trace
ORDER BY r.trace
