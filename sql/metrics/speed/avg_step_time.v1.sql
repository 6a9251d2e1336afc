-- @metric   avg_step_time
-- @version  1
-- @area     speed
-- @summary  Time from the start of a step to the start of the next; first and last step left out
--           when there are more than two.
-- @grain    trace
-- @requires steps
-- @reads    _step_times _rank_step_times _mean_step_times
-- @value    avg_step_time_s
-- @alias    iteration_time_sec
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   avg_step_time_s DOUBLE value s lower | Mean of the kept steps of a rank, then of the
--           ranks.
-- @column   min_s DOUBLE value s | Shortest kept step of any rank.
-- @column   max_s DOUBLE value s | Longest kept step of any rank.
-- @column   std_s DOUBLE value s | Standard deviation (n - 1) over the kept steps of all ranks;
--           NULL for one step.
-- @column   num_steps BIGINT value count | Kept steps of the rank with most.
-- @column   per_rank MAP value s | Mean of the kept steps of each rank.
-- @column   trimmed BOOLEAN value - | Whether first and last steps were left out.
-- @source   metrics 2.A step_time_s (avg_step_time of main.py, without D06); product 6
WITH
    times AS (
        SELECT trace, rank, step, time_ns, trimmed
        FROM _step_times
    ),

    rank_maps AS (
        SELECT
            trace,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(mean_s ORDER BY rank))
                AS per_rank
        FROM _rank_step_times
        GROUP BY trace
    ),

    step_totals AS (
        SELECT
            trace,
            min(time_ns) / 1e9 AS min_s,
            max(time_ns) / 1e9 AS max_s,
            stddev_samp(time_ns / 1e9 ORDER BY rank, step) AS std_s,
            bool_or(trimmed) AS trimmed
        FROM times
        GROUP BY trace
    )

SELECT
    m.trace, m.step_s AS avg_step_time_s, s.min_s, s.max_s, s.std_s, m.step_count AS num_steps,
    r.per_rank, s.trimmed
FROM _mean_step_times AS m
INNER JOIN rank_maps AS r ON r.trace = m.trace
INNER JOIN step_totals AS s ON s.trace = m.trace
ORDER BY m.trace
