-- @metric   coll_call_num
-- @version  1
-- @area     traffic
-- @summary  Number of collective communication calls: every rank, the whole trace.
-- @grain    trace
-- @requires ranks
-- @reads    _rank_list _comm_ranks collectives sources device_events _kernel_coverage
--           _class_reasons
-- @value    total_calls
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'communication')
--           | the trace has neither device events nor gloo calls, the names of some kernels are
--           lost, or communication is in CUDA graphs that were traced as a whole
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   total_calls BIGINT value calls | Device events of class comm; without any device, gloo
--           annotations on the host.
-- @column   calls_per_rank MAP value calls | Calls of each rank.
-- @column   calls_by_type MAP value calls | Calls of each kind, all ranks.
-- @column   calls_per_rank_per_step MAP value calls | Calls launched inside steps of the rank / its
--           steps; NULL without steps. Ranks of whose calls no launch is known are left out.
-- @column   num_traces BIGINT value count | Files that were read: one per rank and window.
-- @column   method VARCHAR value - | device_events or host_annotations.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @source   metrics 2.C coll_call_num (defects D19, D20): one call is one kernel, never its
--           annotations and operators too
WITH
    calls AS (
        SELECT trace, rank, collective, step, device
        FROM collectives
    ),

    rank_steps AS (
        SELECT trace, rank, step_count
        FROM _comm_ranks
        WHERE has_steps
    ),

    per_rank AS (
        SELECT
            r.trace,
            r.rank,
            count(c.collective) AS call_count,
            count(c.step) AS step_call_count,
            max(s.step_count) AS step_count
        FROM _rank_list AS r
        LEFT JOIN calls AS c ON c.trace = r.trace AND c.rank = r.rank
        LEFT JOIN rank_steps AS s ON s.trace = r.trace AND s.rank = r.rank
        GROUP BY r.trace, r.rank
    ),

    rank_totals AS (
        SELECT
            trace,
            TRY_CAST(sum(call_count) AS BIGINT) AS total_calls,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(call_count ORDER BY rank))
                AS calls_per_rank,
            map(
                array_agg(CAST(rank AS VARCHAR) ORDER BY rank) FILTER (WHERE step_count > 0),
                array_agg(CAST(step_call_count AS DOUBLE) / step_count ORDER BY rank)
                    FILTER (WHERE step_count > 0)
            ) AS calls_per_rank_per_step
        FROM per_rank
        GROUP BY trace
    ),

    per_type AS (
        SELECT trace, collective, count(*) AS call_count, count(device) AS device_call_count
        FROM calls
        GROUP BY trace, collective
    ),

    type_totals AS (
        SELECT
            trace,
            map(array_agg(collective ORDER BY collective), array_agg(call_count ORDER BY collective))
                AS calls_by_type,
            sum(device_call_count) AS device_call_count
        FROM per_type
        GROUP BY trace
    ),

    files AS (
        SELECT trace, count(*) AS num_traces
        FROM sources
        -- An execution trace only tells more of a rank.
        WHERE source IS DISTINCT FROM 'et'
        GROUP BY trace
    )

SELECT
    r.trace,
    r.total_calls,
    r.calls_per_rank,
    coalesce(t.calls_by_type, map([]::VARCHAR[], []::BIGINT[])) AS calls_by_type,
    r.calls_per_rank_per_step,
    f.num_traces,
    CASE WHEN r.total_calls > 0 AND t.device_call_count = 0
        THEN 'host_annotations' ELSE 'device_events' END AS method
FROM rank_totals AS r
LEFT JOIN type_totals AS t ON t.trace = r.trace
LEFT JOIN files AS f ON f.trace = r.trace
ORDER BY r.trace
