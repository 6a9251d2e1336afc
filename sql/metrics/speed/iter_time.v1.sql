-- @metric   iter_time
-- @version  1
-- @area     speed
-- @summary  Wall-clock time of an iteration: durations of the step markers on the host, all of
--           them.
-- @grain    trace
-- @requires steps
-- @value    avg_iter_time_ms
-- @alias    time_per_iteration_ms
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   avg_iter_time_ms DOUBLE value ms lower | Mean of the steps of a rank, then of the
--           ranks.
-- @column   min_iter_time_ms DOUBLE value ms | Shortest step of any rank.
-- @column   max_iter_time_ms DOUBLE value ms | Longest step of any rank.
-- @column   std_iter_time_ms DOUBLE value ms | Standard deviation (n - 1) over the steps of all
--           ranks; NULL for one step.
-- @column   num_iterations BIGINT value count | Steps of the rank with most.
-- @column   per_rank MAP value ms | Mean of the steps of each rank.
-- @column   iter_times_ms MAP value ms | Duration of each step of each rank, in the order of time.
-- @column   marker VARCHAR value - | What marked the steps.
-- @source   metrics 2.A step_time_s (iter_time of the first seed); product 6
-- @caveat   These are durations of markers on the host; avg_step_time measures from start to start
--           and leaves out the first and last step.
WITH
    durations AS (
        SELECT trace, rank, ts_ns, dur_ns, marker
        FROM steps
    ),

    per_rank AS (
        SELECT
            trace, rank, avg(dur_ns) / 1e6 AS mean_ms, count(*) AS step_count,
            array_agg(dur_ns / 1e6 ORDER BY ts_ns) AS times_ms
        FROM durations
        GROUP BY trace, rank
    ),

    rank_totals AS (
        SELECT
            trace,
            avg(mean_ms ORDER BY rank) AS avg_iter_time_ms,
            max(step_count) AS num_iterations,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(mean_ms ORDER BY rank))
                AS per_rank,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(times_ms ORDER BY rank))
                AS iter_times_ms
        FROM per_rank
        GROUP BY trace
    ),

    step_totals AS (
        SELECT
            trace,
            min(dur_ns) / 1e6 AS min_iter_time_ms,
            max(dur_ns) / 1e6 AS max_iter_time_ms,
            stddev_samp(dur_ns / 1e6 ORDER BY rank, ts_ns) AS std_iter_time_ms,
            min(marker) AS marker
        FROM durations
        GROUP BY trace
    )

SELECT
    r.trace, r.avg_iter_time_ms, s.min_iter_time_ms, s.max_iter_time_ms, s.std_iter_time_ms,
    r.num_iterations, r.per_rank, r.iter_times_ms, s.marker
FROM rank_totals AS r
INNER JOIN step_totals AS s ON s.trace = r.trace
ORDER BY r.trace
