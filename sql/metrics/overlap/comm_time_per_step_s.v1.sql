-- @metric   comm_time_per_step_s
-- @version  1
-- @area     overlap
-- @summary  Time in which a rank communicates in a step: the union of what the step launched, mean
--           over steps and ranks.
-- @grain    trace
-- @requires steps
-- @reads    _comm_steps _comm_launches device_events collectives _kernel_coverage _class_reasons
--           _comm_coverage
-- @value    comm_time_per_step_s
-- @alias    total_communication_time
-- @coverage launch_coverage_ratio | launches of communication, by the time that it takes, are
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'communication')
--           | the trace has neither device events nor gloo calls, the names of some kernels are
--           lost, or communication is in CUDA graphs that were traced as a whole
-- @check    (SELECT count(*) FROM steps) = 0 OR (SELECT count(*) FROM collectives) = 0 OR (SELECT
--           sum(launched_calls) FROM _comm_launches) > 0
--           | of no communication event is the launch known, and with it the step
-- @null     the ranks with steps communicate, and of none of that is the launch known
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   comm_time_per_step_s DOUBLE value s lower | Union of the communication events that a
--           step launched, mean over the steps of a rank, then over the ranks with steps; a step
--           without any counts as 0. A rank of whose communication no launch is known does not
--           count.
-- @column   min_rank_s DOUBLE value s | Least mean of a rank.
-- @column   max_rank_s DOUBLE value s | Largest mean of a rank.
-- @column   p50_s DOUBLE value s | Median over all steps and ranks, interpolated.
-- @column   p95_s DOUBLE value s | 95th percentile, interpolated.
-- @column   max_s DOUBLE value s | Largest.
-- @column   num_steps BIGINT value count | Steps of all ranks.
-- @column   per_rank MAP value s | Mean of each rank.
-- @column   launch_coverage_ratio DOUBLE value ratio | Share of the communication time (sum of
--           durations) whose launch, and so whose step, is known.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @caveat   A call belongs to the step of its launch, also where it runs into the next one. Waiting
--           for late ranks counts, and so does what computation hides: see comm_comp_overlap.
-- @source   metrics 2.C total_comm_time_s (REC: per rank per step |union(comm)|; defects D08, D22,
--           D23)
WITH
    rank_means AS (
        SELECT trace, rank, avg(comm_ns) / 1e9 AS mean_s
        FROM _comm_steps
        GROUP BY trace, rank
    ),

    rank_totals AS (
        SELECT
            trace,
            avg(mean_s ORDER BY rank) AS comm_time_per_step_s,
            min(mean_s) AS min_rank_s,
            max(mean_s) AS max_rank_s,
            map(
                array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
                array_agg(mean_s ORDER BY rank)
            ) AS per_rank
        FROM rank_means
        GROUP BY trace
    ),

    step_totals AS (
        SELECT
            trace,
            quantile_cont(comm_ns, 0.5) / 1e9 AS p50_s,
            quantile_cont(comm_ns, 0.95) / 1e9 AS p95_s,
            max(comm_ns) / 1e9 AS max_s,
            count(*) AS num_steps
        FROM _comm_steps
        GROUP BY trace
    )

SELECT
    r.trace, r.comm_time_per_step_s, r.min_rank_s, r.max_rank_s, s.p50_s, s.p95_s, s.max_s,
    s.num_steps, r.per_rank, c.launch_coverage_ratio
FROM rank_totals AS r
INNER JOIN step_totals AS s ON s.trace = r.trace
LEFT JOIN _comm_coverage AS c ON c.trace = r.trace
ORDER BY r.trace
