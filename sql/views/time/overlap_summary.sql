-- @view     overlap_summary
-- @summary  Overlap of communication with compute over the ranks: mean, least and largest.
-- @requires overlap_by_rank
-- @null     no rank has a device
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   num_ranks BIGINT value count | Ranks with devices.
-- @column   mean_overlap_ratio DOUBLE value ratio higher | Mean of overlap_ratio over the ranks
--           that communicate.
-- @column   min_overlap_ratio DOUBLE value ratio higher | Least.
-- @column   max_overlap_ratio DOUBLE value ratio higher | Largest.
-- @column   mean_exposed_comm_ms DOUBLE value ms lower | Mean communication without compute beside
--           it.
-- @column   min_exposed_comm_ms DOUBLE value ms lower | Least.
-- @column   max_exposed_comm_ms DOUBLE value ms lower | Largest.
-- @source   metrics 2.L
SELECT
    trace,
    count(*) AS num_ranks,
    avg(overlap_ratio ORDER BY rank) AS mean_overlap_ratio,
    min(overlap_ratio) AS min_overlap_ratio,
    max(overlap_ratio) AS max_overlap_ratio,
    avg(exposed_comm_ms ORDER BY rank) AS mean_exposed_comm_ms,
    min(exposed_comm_ms) AS min_exposed_comm_ms,
    max(exposed_comm_ms) AS max_exposed_comm_ms
FROM overlap_by_rank
GROUP BY trace
ORDER BY trace
