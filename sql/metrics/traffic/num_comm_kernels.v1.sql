-- @metric   num_comm_kernels
-- @version  1
-- @area     traffic
-- @summary  Communication events, all ranks, the whole trace.
-- @grain    trace
-- @requires ranks
-- @reads    _rank_list collectives device_events _kernel_coverage _class_reasons _event_counts
-- @value    num_comm_kernels
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'communication')
--           | the trace has neither device events nor gloo calls, the names of some kernels are
--           lost, or communication is in CUDA graphs that were traced as a whole
-- @param    n_chips BIGINT NULL | Chips that events_per_chip divides by; the ingested ranks where
--           it is not given.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   num_comm_kernels BIGINT value calls | One rank's share of a call each; an asynchronous
--           pair is one.
-- @column   per_rank MAP value calls | Of each rank.
-- @column   by_type MAP value calls | Of each kind, all ranks.
-- @column   events_per_chip DOUBLE value calls | All of them / chips.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @caveat   The tool that set the name goes by words in names: host functions count there, send and
--           receive do not, and an asynchronous pair counts twice.
-- @source   metrics 2.C num_comm_kernels (defects D10, D21)
SELECT
    trace, event_count AS num_comm_kernels, per_rank, by_type,
    CAST(event_count AS DOUBLE) / nullif(coalesce($n_chips, rank_count), 0) AS events_per_chip
FROM _event_counts
WHERE what = 'all'
ORDER BY trace
