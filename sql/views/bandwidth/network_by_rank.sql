-- @view     network_by_rank
-- @summary  What each rank sends with each kind of call, and how fast, as its events show it; of
--           all its calls in the first row.
-- @requires collectives _event_links
-- @null     no rank is in a call of several ranks
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   collective VARCHAR dim - | Kind; all for all kinds together.
-- @column   calls BIGINT value calls | Calls of the rank, barriers left out.
-- @column   sized_calls BIGINT value calls | Those with known bytes and a duration above 0: what
--           follows is of them.
-- @column   wire_bytes BIGINT value bytes | Bytes that the rank sends.
-- @column   comm_ms DOUBLE value ms lower | Their durations added up.
-- @column   bw_gb_per_s DOUBLE value gb_per_s higher | wire_bytes / their durations.
-- @column   mean_bw_gb_per_s DOUBLE value gb_per_s higher | Mean over the calls of bytes /
--           duration: small calls count as much as large ones.
-- @column   median_bw_gb_per_s DOUBLE value gb_per_s higher | Median likewise.
-- @column   min_bw_gb_per_s DOUBLE value gb_per_s | Slowest call.
-- @column   max_bw_gb_per_s DOUBLE value gb_per_s | Fastest call.
-- @column   link_bw_gb_per_s DOUBLE value gb_per_s | Peak of the links of these calls by the card;
--           NULL without one.
-- @column   utilization_pct DOUBLE value pct higher | Bytes over links whose peak is known, of what
--           the links could have carried in these durations.
-- @caveat   Waiting for late ranks is in the durations: network_load has what calls need once all
--           ranks are there.
-- @source   metrics 2.D collective_bandwidth_gbps, by rank and kind
WITH
    events AS (
        SELECT
            trace, rank, collective, link_bw_gb_per_s,
            CASE WHEN wire_bytes >= 0 AND dur_ns > 0 THEN wire_bytes END AS wire_bytes,
            CASE WHEN wire_bytes >= 0 AND dur_ns > 0 THEN dur_ns END AS dur_ns,
            -- bytes/ns = GB/s
            CASE WHEN wire_bytes >= 0 AND dur_ns > 0 THEN CAST(wire_bytes AS DOUBLE) / dur_ns END AS bw_gb_per_s
        FROM _event_links
    )

SELECT
    trace, rank,
    CASE WHEN grouping(events.collective) = 1 THEN 'all' ELSE events.collective END AS collective,
    count(*) AS calls,
    count(wire_bytes) AS sized_calls,
    TRY_CAST(sum(wire_bytes) AS BIGINT) AS wire_bytes,
    sum(dur_ns) / 1e6 AS comm_ms,
    CAST(sum(wire_bytes) AS DOUBLE) / sum(dur_ns) AS bw_gb_per_s,
    avg(bw_gb_per_s ORDER BY bw_gb_per_s) AS mean_bw_gb_per_s,
    quantile_cont(bw_gb_per_s, 0.5) AS median_bw_gb_per_s,
    min(bw_gb_per_s) AS min_bw_gb_per_s,
    max(bw_gb_per_s) AS max_bw_gb_per_s,
    max(link_bw_gb_per_s) FILTER (WHERE wire_bytes IS NOT NULL) AS link_bw_gb_per_s,
    100 * CAST(sum(wire_bytes) FILTER (WHERE link_bw_gb_per_s IS NOT NULL) AS DOUBLE)
        / sum(link_bw_gb_per_s * dur_ns ORDER BY link_bw_gb_per_s * dur_ns) AS utilization_pct
FROM events
GROUP BY GROUPING SETS ((trace, rank), (trace, rank, events.collective))
ORDER BY trace, rank, grouping(events.collective) DESC, collective
