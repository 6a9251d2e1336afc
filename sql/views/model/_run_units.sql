-- @view     _run_units
-- @summary  What the times of a trace are of: its steps and their time, its window, its kernels.
-- @requires _windows
-- @reads    steps kernel_times
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   step_count DOUBLE value count | Steps of a rank, mean over ranks; NULL without steps.
-- @column   mean_step_ns DOUBLE value ns | Mean step of a rank, mean over ranks.
-- @column   mean_window_ns DOUBLE value ns | Window of a rank, mean over ranks.
-- @column   device_count DOUBLE value count | Devices of a rank, mean over ranks; 1 where there are
--           none.
-- @column   kernel_count DOUBLE value count | Kernels of a rank that has some; NULL without
--           kernels.
-- @column   rank_count BIGINT value count | Ranks that have kernels; NULL without kernels.
-- @column   rank_step_count BIGINT value count | Steps of these ranks, added up; NULL without
--           steps.
WITH
    rank_steps AS (
        SELECT trace, rank, count(*) AS step_count, avg(dur_ns ORDER BY ts_ns) AS mean_step_ns
        FROM steps
        GROUP BY trace, rank
    ),

    stepped AS (
        SELECT
            trace,
            avg(step_count ORDER BY rank) AS step_count,
            avg(mean_step_ns ORDER BY rank) AS mean_step_ns
        FROM rank_steps
        GROUP BY trace
    ),

    windows AS (
        SELECT
            trace,
            avg(end_ns - start_ns ORDER BY rank) AS mean_window_ns,
            avg(CAST(greatest(device_count, 1) AS DOUBLE) ORDER BY rank) AS device_count
        FROM _windows
        GROUP BY trace
    ),

    rank_kernels AS (
        SELECT trace, rank, sum(events) AS kernel_count
        FROM kernel_times
        WHERE rank IS NOT NULL
        GROUP BY trace, rank
    ),

    kernels AS (
        SELECT
            k.trace,
            sum(k.kernel_count) AS kernel_count,
            count(*) AS rank_count,
            CAST(sum(s.step_count) AS BIGINT) AS rank_step_count
        FROM rank_kernels AS k
        LEFT JOIN rank_steps AS s ON s.trace = k.trace AND s.rank = k.rank
        GROUP BY k.trace
    )

SELECT
    w.trace, s.step_count, s.mean_step_ns, w.mean_window_ns, w.device_count,
    CAST(k.kernel_count AS DOUBLE) / k.rank_count AS kernel_count,
    k.rank_count, k.rank_step_count
FROM windows AS w
LEFT JOIN stepped AS s ON s.trace = w.trace
LEFT JOIN kernels AS k ON k.trace = w.trace
