-- @metric   cpu_overhead_s
-- @version  1
-- @area     devices
-- @summary  Time inside steps in which the main thread of a rank runs operators and no device works
--           beside, mean over ranks.
-- @grain    trace
-- @profilers kineto nsys
-- @reads    host_times steps _device_counts
-- @value    cpu_overhead_s
-- @check    (SELECT count(*) FROM host_times) > 0 | the trace has no operators on the host
-- @check    (SELECT count(*) FROM _device_counts) > 0
--           | the trace has no device events, beside which operators could run
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   cpu_overhead_s DOUBLE value s lower | |operators of the main thread \ all device
--           events| inside the steps, in all of the trace without steps; mean over the ranks that
--           have operators.
-- @column   main_op_s DOUBLE value s | Operators of the main thread, beside device work too.
-- @column   op_self_s DOUBLE value s | Operators of all threads, each thread by itself: the own
--           times of all operators added up.
-- @column   per_step_s DOUBLE value s | cpu_overhead_s for one step; mean over the steps of a rank,
--           then over ranks; NULL without steps.
-- @column   of_step_time_pct DOUBLE value pct lower | 100 x overhead / time of the steps, mean over
--           ranks; NULL without steps.
-- @column   exposed_pct DOUBLE value pct | 100 x overhead / main_op_s, of all ranks: the share of
--           host work that is not hidden.
-- @column   per_rank MAP value s | Overhead of each rank.
-- @column   window_basis VARCHAR value - | steps or whole_trace, or mixed where some ranks have no
--           steps.
-- @warn     (SELECT count(*) FROM _device_counts WHERE source = 'nsys') > 0
--           | operators are the outermost ranges of NVTX that are no annotation (steps, FSDP::,
--           nccl:, Optimizer.): a range of your own around a whole step counts all of it.
-- @caveat   The profiler itself slows operators down.
-- @source   metrics 2.A cpu_overhead_s
WITH
    sums AS (
        SELECT
            trace, rank,
            TRY_CAST(sum(main_op_ns) AS BIGINT) AS main_ns,
            TRY_CAST(sum(exposed_op_ns) AS BIGINT) AS exposed_ns,
            TRY_CAST(sum(op_self_ns) AS BIGINT) AS self_ns
        FROM host_times
        GROUP BY trace, rank
    ),

    -- Steps in which no operator runs count for the mean.
    step_sums AS (
        SELECT trace, rank, count(*) AS step_count, TRY_CAST(sum(dur_ns) AS BIGINT) AS step_ns
        FROM steps
        WHERE dur_ns IS NOT NULL
        GROUP BY trace, rank
    ),

    per_rank AS (
        SELECT
            h.trace, h.rank, h.main_ns, h.exposed_ns, h.self_ns, s.step_count,
            CAST(h.exposed_ns AS DOUBLE) / s.step_count AS step_exposed_ns,
            100.0 * h.exposed_ns / nullif(s.step_ns, 0) AS step_pct
        FROM sums AS h
        LEFT JOIN step_sums AS s ON s.trace = h.trace AND s.rank = h.rank
    )

SELECT
    trace,
    avg(exposed_ns) / 1e9 AS cpu_overhead_s,
    avg(main_ns) / 1e9 AS main_op_s,
    avg(self_ns) / 1e9 AS op_self_s,
    avg(step_exposed_ns ORDER BY rank) / 1e9 AS per_step_s,
    avg(step_pct ORDER BY rank) AS of_step_time_pct,
    100.0 * sum(exposed_ns) / nullif(sum(main_ns), 0) AS exposed_pct,
    map(
        array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
        array_agg(exposed_ns / 1e9 ORDER BY rank)
    ) AS per_rank,
    CASE
        WHEN count(step_count) = count(*) THEN 'steps'
        WHEN count(step_count) = 0 THEN 'whole_trace'
        ELSE 'mixed'
    END AS window_basis
FROM per_rank
GROUP BY trace
ORDER BY trace
