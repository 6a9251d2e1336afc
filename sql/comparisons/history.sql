-- @comparison history
-- @summary  Metrics of a series of runs in order of recording, with the level of each stretch, the
--           band of its noise, and the runs at which the level changes.
-- @requires metric_results
-- @reads    trace_series
-- @param    threshold DOUBLE 1 | Changes of the level up to this many percent are none.
-- @null     no run has a value
-- @caveat   A run begins a new level where the median of up to five runs from it on differs from
--           that of up to five before it, at least three on each side: by more than the threshold,
--           and by more than four standard errors of such a difference of medians. All runs of each
--           side but one lie on its side of the middle of both medians, and so do the run and the
--           one before it. Of several such runs within five, the one with the largest difference
--           counts. The noise is 1.4826 / sqrt(2) times the median of the differences of runs that
--           follow each other, which neither a change of level nor a few outliers move.
-- @caveat   Of made series of 30 runs without a change, fewer than 1 in 100 have a change point:
--           normal noise, heavy tails (Student's t, 3 degrees), 5 % outliers. Where runs resemble
--           the one before (correlation 0.5), 15 in 100 have one.
-- @column   run BIGINT dim - | Place in the series, from 1; by name where the time of recording is
--           not known.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   recorded VARCHAR value - | Time of recording, UTC; NULL where it is not known.
-- @column   metric VARCHAR dim - | Metric.
-- @column   version BIGINT value - | Its version.
-- @column   unit VARCHAR value - | Unit of the value.
-- @column   better VARCHAR value - | Better direction: higher, lower or NULL.
-- @column   value DOUBLE value - | Value; NULL where the run has none.
-- @column   level DOUBLE value - | Median of the runs from the last change to the next one.
-- @column   low DOUBLE value - | Level less four times the noise; NULL for fewer than six runs.
-- @column   high DOUBLE value - | Level and four times the noise; NULL likewise.
-- @column   is_outside BOOLEAN value - | Whether the value lies outside of the band.
-- @column   is_change BOOLEAN value - | Whether a new level begins with this run.
-- @column   change_pct DOUBLE value pct | The new level against the one before, in percent of that;
--           NULL where none begins, and where the one before is 0.
-- @column   status VARCHAR value - | Better or Worse where a level begins, by the better direction;
--           Changed without a direction.
-- @source   product 6.6; noise of successive differences (von Neumann, 1941), robust by medians
WITH
    runs AS (
        SELECT
            trace, strftime(make_timestamp_ns(recorded_ns), '%Y-%m-%dT%H:%M:%SZ') AS recorded,
            row_number() OVER (ORDER BY recorded_ns NULLS LAST, trace) AS run
        FROM (
            SELECT DISTINCT m.trace, s.recorded_ns
            FROM metric_results AS m
            LEFT JOIN trace_series AS s ON s.trace = m.trace
        )
    ),

    results AS (
        SELECT
            r.run, r.trace, r.recorded, m.place, m.metric, m.version, m.unit, m.better, m.value
        FROM metric_results AS m
        INNER JOIN runs AS r ON r.trace = m.trace
        WHERE m.place IN (SELECT place FROM metric_results WHERE value IS NOT NULL)
    ),

    valued AS (
        SELECT
            place, run, value,
            row_number() OVER by_run AS spot,
            abs(value - lag(value) OVER by_run) AS jump,
            array_agg(value) OVER (
                PARTITION BY place ORDER BY run ROWS BETWEEN 5 PRECEDING AND 1 PRECEDING
            ) AS before,
            array_agg(value) OVER (
                PARTITION BY place ORDER BY run ROWS BETWEEN CURRENT ROW AND 4 FOLLOWING
            ) AS after,
            lag(value) OVER by_run AS last_value
        FROM results
        WHERE value IS NOT NULL
        WINDOW by_run AS (PARTITION BY place ORDER BY run)
    ),

    noises AS (
        SELECT
            place, count(*) AS value_count, 1.4826 / sqrt(2) * median(jump) AS noise
        FROM valued
        GROUP BY place
    ),

    sides AS (
        SELECT
            v.place, v.spot, v.value, v.last_value, v.before, v.after, n.noise,
            list_median(v.before) AS before_median, list_median(v.after) AS after_median
        FROM valued AS v
        INNER JOIN noises AS n ON n.place = v.place
        WHERE len(v.before) >= 3 AND len(v.after) >= 3
    ),

    -- After less before, and both sides relative to the middle, so that after is above.
    differences AS (
        SELECT
            place, spot, after_median - before_median AS difference, before_median,
            4 * noise * sqrt(pi() / 2 * (1 / len(before) + 1 / len(after))) AS least,
            sign(after_median - before_median) AS up,
            (after_median + before_median) / 2 AS middle,
            value, last_value, before, after
        FROM sides
    ),

    candidates AS (
        SELECT place, spot, abs(difference) AS size
        FROM differences
        WHERE abs(difference) > least
            AND abs(difference) > $threshold / 100 * abs(before_median)
            AND up * (value - middle) > 0
            AND up * (last_value - middle) < 0
            AND len(list_filter(before, lambda v: up * (v - middle) < 0)) >= len(before) - 1
            AND len(list_filter(after, lambda v: up * (v - middle) > 0)) >= len(after) - 1
    ),

    changes AS (
        SELECT c.place, c.spot
        FROM candidates AS c
        WHERE NOT EXISTS (
            SELECT 1
            FROM candidates AS o
            WHERE o.place = c.place
                AND abs(o.spot - c.spot) < 5
                AND (o.size > c.size OR o.size = c.size AND o.spot < c.spot)
        )
    ),

    stretches AS (
        SELECT
            v.place, v.run, v.value, c.spot IS NOT NULL AS is_change,
            count(c.spot) OVER (PARTITION BY v.place ORDER BY v.run) AS stretch
        FROM valued AS v
        LEFT JOIN changes AS c ON c.place = v.place AND c.spot = v.spot
    ),

    levels AS (
        SELECT
            place, stretch, median(value) AS level,
            lag(median(value)) OVER (PARTITION BY place ORDER BY stretch) AS last_level
        FROM stretches
        GROUP BY place, stretch
    ),

    banded AS (
        SELECT
            s.place, s.run, s.is_change, l.level, l.last_level,
            CASE WHEN n.value_count >= 6 THEN 4 * n.noise END AS reach
        FROM stretches AS s
        INNER JOIN levels AS l ON l.place = s.place AND l.stretch = s.stretch
        INNER JOIN noises AS n ON n.place = s.place
    )

SELECT
    r.run, r.trace, r.recorded, r.metric, r.version, r.unit, r.better, r.value,
    b.level, b.level - b.reach AS low, b.level + b.reach AS high,
    abs(r.value - b.level) > b.reach AS is_outside,
    coalesce(b.is_change, false) AS is_change,
    CASE WHEN b.is_change
        THEN 100 * (b.level - b.last_level) / nullif(abs(b.last_level), 0)
    END AS change_pct,
    CASE
        WHEN NOT coalesce(b.is_change, false) THEN NULL
        WHEN r.better IS NULL THEN 'Changed'
        WHEN (b.level > b.last_level) = (r.better = 'higher') THEN 'Better'
        ELSE 'Worse'
    END AS status
FROM results AS r
LEFT JOIN banded AS b ON b.place = r.place AND b.run = r.run
ORDER BY r.place, r.run
