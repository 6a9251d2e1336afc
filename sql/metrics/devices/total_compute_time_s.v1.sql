-- @metric   total_compute_time_s
-- @version  1
-- @area     devices
-- @summary  Time in which a rank computes: the union of its compute events, mean over ranks.
-- @grain    trace
-- @reads    _launch_coverage _step_sums _step_compute steps _class_times _device_counts
-- @value    total_compute_time_s
-- @alias    kernel_compute_time_group_6
-- @coverage launch_coverage_ratio | per_step_s: the launches of compute events are
-- @check    (SELECT count(*) FROM _device_counts) > 0 | the trace has no device events
-- @null     no rank has an event with a duration
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   total_compute_time_s DOUBLE value s | Union per rank (summed over the devices of a
--           rank), mean over the ranks that have a window.
-- @column   sum_all_ranks_s DOUBLE value s | The unions summed over ranks.
-- @column   per_rank MAP value s | Union of each rank.
-- @column   sum_of_durations_s DOUBLE value s | Plain sum of the durations, all ranks: what
--           overlaps counts twice.
-- @column   per_step_s DOUBLE value s | Union of what one step launched; mean over the steps of a
--           rank, then over ranks; NULL without steps.
-- @column   launch_coverage_ratio DOUBLE value ratio | Share of the compute events whose launch,
--           and so whose step, is known (of XLA all): per_step_s rests on those; NULL without
--           steps.
-- @source   metrics 2.A total_compute_time_s (defects D08 to D10: unions per device, classes set
--           once at ingest)
WITH
    durations AS (
        SELECT trace, sum(dur_ns) / 1e9 AS duration_s
        FROM _step_sums
        WHERE class = 'compute' AND rank IS NOT NULL
        GROUP BY trace
    ),

    -- A step without such work counts as 0.
    step_times AS (
        SELECT t.trace, t.rank, t.step, TRY_CAST(coalesce(sum(s.union_ns), 0) AS BIGINT) AS step_ns
        FROM steps AS t
        LEFT JOIN _step_compute AS s ON s.trace = t.trace AND s.rank = t.rank AND s.step = t.step
        GROUP BY t.trace, t.rank, t.step
    ),

    step_ranks AS (
        SELECT trace, rank, avg(step_ns) / 1e9 AS step_s
        FROM step_times
        GROUP BY trace, rank
    ),

    step_totals AS (
        SELECT trace, avg(step_s ORDER BY rank) AS per_step_s
        FROM step_ranks
        GROUP BY trace
    )

SELECT
    r.trace,
    r.mean_s AS total_compute_time_s,
    r.sum_s AS sum_all_ranks_s,
    r.per_rank,
    coalesce(d.duration_s, 0) AS sum_of_durations_s,
    p.per_step_s,
    CASE WHEN p.trace IS NOT NULL THEN c.compute_coverage_ratio END AS launch_coverage_ratio
FROM _class_times AS r
LEFT JOIN durations AS d ON d.trace = r.trace
LEFT JOIN step_totals AS p ON p.trace = r.trace
LEFT JOIN _launch_coverage AS c ON c.trace = r.trace
WHERE r.class = 'compute'
ORDER BY r.trace
