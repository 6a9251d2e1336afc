-- @metric   communication_fraction
-- @version  1
-- @area     overlap
-- @summary  Share of the window of a rank in which it communicates, mean over ranks.
-- @grain    trace
-- @reads    _windows _device_times busy_intervals device_events collectives _kernel_coverage
--           _class_reasons
-- @value    communication_fraction
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'communication')
--           | the trace has neither device events nor gloo calls, the names of some kernels are
--           lost, or communication is in CUDA graphs that were traced as a whole
-- @null     the trace has no slices
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   communication_fraction DOUBLE value ratio lower | |comm| / window of a rank, mean over
--           ranks.
-- @column   of_busy DOUBLE value ratio | |comm| / |all device events| of a rank, mean over ranks;
--           NULL without device events.
-- @column   per_rank MAP value ratio | |comm| / window of each rank.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @source   metrics 2.C communication_fraction_pct (defects D26, D27); product 6
WITH
    spans AS (
        SELECT
            trace,
            rank,
            TRY_CAST(sum(comm_ns) AS BIGINT) AS comm_ns,
            TRY_CAST(sum(busy_ns) FILTER (WHERE device IS NOT NULL) AS BIGINT) AS busy_ns
        FROM _device_times
        GROUP BY trace, rank
    ),

    per_rank AS (
        SELECT
            w.trace,
            w.rank,
            CAST(coalesce(s.comm_ns, 0) AS DOUBLE)
                / nullif((w.end_ns - w.start_ns) * greatest(w.device_count, 1), 0) AS fraction,
            CAST(s.comm_ns AS DOUBLE) / nullif(s.busy_ns, 0) AS busy_fraction
        FROM _windows AS w
        LEFT JOIN spans AS s ON s.trace = w.trace AND s.rank = w.rank
    )

SELECT
    trace,
    avg(fraction ORDER BY rank) AS communication_fraction,
    avg(busy_fraction ORDER BY rank) AS of_busy,
    map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(fraction ORDER BY rank))
        AS per_rank
FROM per_rank
GROUP BY trace
ORDER BY trace
