-- @view     collective_sizes
-- @summary  Communication calls by kind, group size, link and message size: how often, how long,
--           how fast.
-- @requires _bus_calls
-- @null     no call of several ranks states its message size
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   collective VARCHAR dim - | Kind.
-- @column   group_size BIGINT dim - | Ranks of the group.
-- @column   link VARCHAR dim - | intra (one host), inter, or NULL where unknown.
-- @column   message_bytes BIGINT dim bytes | Message size S.
-- @column   calls BIGINT value calls | Calls, once each over their ranks.
-- @column   total_bytes BIGINT value bytes | S x calls.
-- @column   total_ms DOUBLE value ms lower | Transfer times added up: of each call the shortest
--           duration over its ranks.
-- @column   median_transfer_us DOUBLE value us lower | Median transfer time.
-- @column   median_algo_bw_gb_per_s DOUBLE value gb_per_s higher | S / median transfer time.
-- @column   median_bus_bw_gb_per_s DOUBLE value gb_per_s higher | Median bus bandwidth; NULL for
--           kinds without a bus factor and uneven all-to-all.
-- @column   min_bus_bw_gb_per_s DOUBLE value gb_per_s | Least.
-- @column   max_bus_bw_gb_per_s DOUBLE value gb_per_s | Largest.
-- @source   metrics 4.3; bus factors of nccl-tests
SELECT
    trace, collective, group_size, link, message_bytes,
    count(*) AS calls,
    TRY_CAST(sum(message_bytes) AS BIGINT) AS total_bytes,
    sum(transfer_ns) / 1e6 AS total_ms,
    quantile_cont(transfer_ns, 0.5) / 1e3 AS median_transfer_us,
    message_bytes / nullif(quantile_cont(transfer_ns, 0.5), 0) AS median_algo_bw_gb_per_s,
    quantile_cont(bus_bw_gb_per_s, 0.5) AS median_bus_bw_gb_per_s,
    min(bus_bw_gb_per_s) AS min_bus_bw_gb_per_s,
    max(bus_bw_gb_per_s) AS max_bus_bw_gb_per_s
FROM _bus_calls
WHERE message_bytes IS NOT NULL
GROUP BY trace, collective, group_size, link, message_bytes
ORDER BY trace, collective, group_size, link, message_bytes
