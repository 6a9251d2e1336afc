-- @metric   total_model_flops_from_args
-- @version  1
-- @area     speed
-- @summary  Floating-point operations that the device events state, all ranks.
-- @grain    trace
-- @profilers xla
-- @requires device_events
-- @reads    _rank_flops _device_counts
-- @value    total_model_flops_from_args
-- @check    (SELECT count(*) FROM _device_counts WHERE flops_events > 0) > 0
--           | no device event states floating-point operations (XLA traces of TPUs do)
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   total_model_flops_from_args DOUBLE value flops | Sum over the device events of all
--           ranks.
-- @column   per_rank MAP value flops | Sum of each rank that states any.
-- @column   flops_event_count BIGINT value count | Device events that state them.
-- @caveat   Only operations of a device count. The tool that set the name adds up every slice of
--           the file, so that the steps, modules and loops around operations count again.
-- @source   metrics 2.F total_model_flops (defects D09, D15)
WITH
    rank_flops AS (
        SELECT trace, rank, flops, event_count
        FROM _rank_flops
    )

SELECT
    trace,
    CAST(sum(flops) AS DOUBLE) AS total_model_flops_from_args,
    map(
        array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
        array_agg(CAST(flops AS DOUBLE) ORDER BY rank)
    ) AS per_rank,
    TRY_CAST(sum(event_count) AS BIGINT) AS flops_event_count
FROM rank_flops
GROUP BY trace
ORDER BY trace
