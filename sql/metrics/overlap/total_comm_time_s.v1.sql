-- @metric   total_comm_time_s
-- @version  1
-- @area     overlap
-- @summary  Time in which a rank communicates: the union of its communication events, mean over
--           ranks.
-- @grain    trace
-- @reads    _comm_steps _comm_launches _windows busy_intervals device_events collectives
--           _kernel_coverage _class_reasons _class_times _comm_coverage
-- @value    total_comm_time_s
-- @coverage launch_coverage_ratio | per_step_s: the launches of communication, by the time that it
--           takes, are
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'communication')
--           | the trace has neither device events nor gloo calls, the names of some kernels are
--           lost, or communication is in CUDA graphs that were traced as a whole
-- @null     no rank has an event with a duration
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   total_comm_time_s DOUBLE value s | Union per rank (summed over the devices of a rank),
--           mean over the ranks that have a window; 0 for one that does not communicate.
-- @column   sum_all_ranks_s DOUBLE value s | The unions summed over ranks.
-- @column   per_rank MAP value s | Union of each rank.
-- @column   sum_of_durations_s DOUBLE value s | Plain sum of the durations, all ranks: what
--           overlaps counts twice.
-- @column   per_step_s DOUBLE value s | Union of what one step launched; mean over the steps of a
--           rank, then over the ranks with steps; NULL without steps, and where no launch is known.
-- @column   launch_coverage_ratio DOUBLE value ratio | Share of the communication time (sum of
--           durations) whose launch, and so whose step, is known: per_step_s rests on that; NULL
--           without steps.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @source   metrics 2.C total_comm_time_s (defects D08, D22, D23: unions of kernels, no host
--           wrappers)
WITH
    durations AS (
        SELECT trace, sum(dur_ns) / 1e9 AS duration_s
        FROM collectives
        GROUP BY trace
    ),

    step_ranks AS (
        SELECT trace, rank, avg(comm_ns) / 1e9 AS step_s
        FROM _comm_steps
        GROUP BY trace, rank
    ),

    step_totals AS (
        SELECT trace, avg(step_s ORDER BY rank) AS per_step_s
        FROM step_ranks
        GROUP BY trace
    )

SELECT
    r.trace,
    r.mean_s AS total_comm_time_s,
    r.sum_s AS sum_all_ranks_s,
    r.per_rank,
    coalesce(d.duration_s, 0) AS sum_of_durations_s,
    p.per_step_s,
    CASE WHEN p.trace IS NOT NULL THEN c.launch_coverage_ratio END AS launch_coverage_ratio
FROM _class_times AS r
LEFT JOIN durations AS d ON d.trace = r.trace
LEFT JOIN step_totals AS p ON p.trace = r.trace
LEFT JOIN _comm_coverage AS c ON c.trace = r.trace
WHERE r.class = 'comm'
ORDER BY r.trace
