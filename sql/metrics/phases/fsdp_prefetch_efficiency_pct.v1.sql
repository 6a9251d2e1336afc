-- @metric   fsdp_prefetch_efficiency_pct
-- @version  1
-- @area     phases
-- @summary  How well FSDP gathers ahead: the part of its all_gather beside which other compute
--           runs.
-- @grain    trace
-- @profilers kineto nsys
-- @nvtx     partial
-- @value    fsdp_prefetch_efficiency_pct
-- @alias    fsdp_prefetch_efficiency prefetch_efficiency
-- @check    (SELECT coalesce(sum(gather_ns), 0) FROM fsdp_steps) > 0
--           | no range of FSDP launched an all_gather that the trace holds
-- @check    (SELECT coalesce(sum(dur_ns), 0) FROM kernel_times WHERE class = 'compute') > 0
--           | the trace has no compute on a device, which could hide an all_gather
-- @reads    fsdp_steps kernel_times
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   fsdp_prefetch_efficiency_pct DOUBLE value pct higher | |all_gather of FSDP ∩ other
--           compute| / |all_gather of FSDP|, over all ranks.
-- @column   all_gather_time_ms DOUBLE value ms | Its all_gather, whole trace, summed over ranks.
-- @column   hidden_all_gather_ms DOUBLE value ms | Part of that beside which compute runs that is
--           not of FSDP.
-- @column   exposed_all_gather_ms DOUBLE value ms lower | What is left: the device waits for
--           parameters.
-- @column   reduce_scatter_hidden_pct DOUBLE value pct higher | The same share of its
--           reduce_scatter and all_reduce.
-- @column   per_rank MAP value pct | Share of each rank.
-- @source   metrics 2.H fsdp_prefetch_efficiency
WITH
    ranks AS (
        SELECT
            trace, rank,
            sum(gather_ns) AS gather_ns, sum(hidden_gather_ns) AS hidden_ns,
            sum(reduce_ns) AS reduce_ns, sum(hidden_reduce_ns) AS hidden_reduce_ns
        FROM fsdp_steps
        GROUP BY trace, rank
    )

SELECT
    trace,
    100.0 * sum(hidden_ns) / nullif(sum(gather_ns), 0) AS fsdp_prefetch_efficiency_pct,
    sum(gather_ns) / 1e6 AS all_gather_time_ms,
    sum(hidden_ns) / 1e6 AS hidden_all_gather_ms,
    (sum(gather_ns) - sum(hidden_ns)) / 1e6 AS exposed_all_gather_ms,
    100.0 * sum(hidden_reduce_ns) / nullif(sum(reduce_ns), 0) AS reduce_scatter_hidden_pct,
    map(
        array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
        array_agg(100.0 * hidden_ns / nullif(gather_ns, 0) ORDER BY rank)
    ) AS per_rank
FROM ranks
GROUP BY trace
ORDER BY trace
