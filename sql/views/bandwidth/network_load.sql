-- @view     network_load
-- @summary  Bus bandwidth of the communication calls by kind, with the data that they carry and how
--           much of the link they use.
-- @requires _bus_calls
-- @null     no call of several ranks carries anything
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   collective VARCHAR dim - | Kind.
-- @column   calls BIGINT value calls | Calls of more than one rank that carry something, once each
--           over their ranks.
-- @column   sized_calls BIGINT value calls | Those whose bandwidth is known.
-- @column   mean_bus_bw_gb_per_s DOUBLE value gb_per_s higher | Mean bus bandwidth of these.
-- @column   median_bus_bw_gb_per_s DOUBLE value gb_per_s higher | Median.
-- @column   min_bus_bw_gb_per_s DOUBLE value gb_per_s | Least.
-- @column   max_bus_bw_gb_per_s DOUBLE value gb_per_s | Largest.
-- @column   total_bytes BIGINT value bytes | Message sizes of the calls added up, where known.
-- @column   utilization_pct DOUBLE value pct higher | Median bus bandwidth, of the bandwidth of the
--           link by the card; NULL without one.
-- @source   metrics 4.3 and 2.L; bus factors of nccl-tests
SELECT
    trace, collective,
    count(*) AS calls,
    count(bus_bw_gb_per_s) AS sized_calls,
    avg(bus_bw_gb_per_s ORDER BY bus_bw_gb_per_s) AS mean_bus_bw_gb_per_s,
    quantile_cont(bus_bw_gb_per_s, 0.5) AS median_bus_bw_gb_per_s,
    min(bus_bw_gb_per_s) AS min_bus_bw_gb_per_s,
    max(bus_bw_gb_per_s) AS max_bus_bw_gb_per_s,
    TRY_CAST(sum(message_bytes) AS BIGINT) AS total_bytes,
    quantile_cont(100 * bus_bw_gb_per_s / link_bw_gb_per_s, 0.5) AS utilization_pct
FROM _bus_calls
GROUP BY trace, collective
ORDER BY trace, total_bytes DESC NULLS LAST, collective
