-- @view     overlap_by_rank
-- @summary  How much of the communication of each rank its devices hide behind compute, in the
--           whole trace.
-- @requires _rank_times
-- @null     no rank has a device
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   compute_ms DOUBLE value ms | Union of compute, summed over the devices of the rank.
-- @column   comm_ms DOUBLE value ms lower | Union of communication.
-- @column   overlap_ms DOUBLE value ms | What lies in both.
-- @column   exposed_comm_ms DOUBLE value ms lower | Communication without compute beside it.
-- @column   overlap_ratio DOUBLE value ratio higher | overlap_ms / comm_ms; NULL without
--           communication.
-- @source   product 6 comm_comp_overlap, for each rank
SELECT
    trace, rank,
    compute_ns / 1e6 AS compute_ms,
    comm_ns / 1e6 AS comm_ms,
    overlap_ns / 1e6 AS overlap_ms,
    (comm_ns - overlap_ns) / 1e6 AS exposed_comm_ms,
    CAST(overlap_ns AS DOUBLE) / nullif(comm_ns, 0) AS overlap_ratio
FROM _rank_times
WHERE basis = 'device'
ORDER BY trace, rank
