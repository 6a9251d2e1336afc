-- @metric   collective_bandwidth
-- @version  1
-- @area     bandwidth
-- @summary  Bytes over the wire per second of the collectives of a rank, as its events show them;
--           mean over ranks.
-- @grain    trace
-- @requires collectives
-- @reads    _event_links
-- @value    collective_bandwidth_gb_per_s
-- @alias    collective_bandwidth_gbps
-- @coverage size_coverage_ratio | wire bytes and time are
-- @null     no collective of more than one rank has known wire bytes and a duration above 0
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   collective_bandwidth_gb_per_s DOUBLE value gb_per_s higher | Sum of the wire bytes of a
--           rank's collectives (send and receive apart) / sum of their durations; mean over the
--           ranks that have such calls. Calls that send nothing count with their time.
-- @column   data_weighted_gb_per_s DOUBLE value gb_per_s | Mean bandwidth of the events of each
--           kind, weighted by its bytes; mean over the ranks that send bytes: the figure of the
--           tool that set the name.
-- @column   utilization_pct DOUBLE value pct | 100 x wire bytes / what the links of the card could
--           have carried in the same durations (Gbit/s / 8; scale-up inside a node, scale-out
--           between nodes), over the collectives whose link is known; mean over ranks.
-- @column   total_traffic_gb DOUBLE value gb | Wire bytes of the collectives of all ranks.
-- @column   calls BIGINT value calls | Events of collectives, barriers left out, all ranks.
-- @column   calls_with_size BIGINT value calls | Those that count.
-- @column   size_coverage_ratio DOUBLE value ratio | calls_with_size / calls.
-- @column   by_type LIST value - | Of each kind, all ranks, send and receive too: calls,
--           calls_with_size, mean, median, min and max bandwidth of its events, weighted_gb_per_s
--           (sum / sum), total_data_gb.
-- @column   per_rank LIST value - | Of each rank: collective_bandwidth_gb_per_s,
--           data_weighted_gb_per_s, utilization_pct, total_data_gb, calls.
-- @warn     utilization_pct > 100
--           | utilization_pct is above 100 %: the card states less link bandwidth than the calls
--           had, or that of another link
-- @caveat   Waiting for late ranks is in the durations. See avg_comm_bandwidth_GBps for what the
--           network carried once all ranks were there.
-- @source   metrics 2.D collective_bandwidth_gbps (defects D29, D31, D39: group of the event, bytes
--           by kind, the link of the card)
WITH
    events AS (
        SELECT
            trace, rank, collective,
            collective IN ('send', 'recv', 'send_recv') AS p2p,
            CASE WHEN wire_bytes >= 0 AND dur_ns > 0 THEN wire_bytes END AS wire_bytes,
            CASE WHEN wire_bytes >= 0 AND dur_ns > 0 THEN dur_ns END AS dur_ns,
            -- bytes/ns = GB/s
            CASE WHEN wire_bytes >= 0 AND dur_ns > 0 THEN CAST(wire_bytes AS DOUBLE) / dur_ns END AS bw_gb_per_s,
            CASE WHEN link_bw_gb_per_s IS NOT NULL AND dur_ns > 0 THEN wire_bytes END AS linked_bytes,
            CASE WHEN wire_bytes >= 0 AND dur_ns > 0 THEN link_bw_gb_per_s * dur_ns END AS possible_bytes
        FROM _event_links
    ),

    rank_kinds AS (
        SELECT
            trace, rank, collective, p2p, count(*) AS calls, count(wire_bytes) AS calls_with_size,
            sum(wire_bytes) AS wire_bytes, sum(dur_ns) AS dur_ns,
            avg(bw_gb_per_s ORDER BY bw_gb_per_s) AS mean_gb_per_s,
            sum(linked_bytes) AS linked_bytes,
            sum(possible_bytes ORDER BY possible_bytes) AS possible_bytes
        FROM events
        GROUP BY trace, rank, collective, p2p
    ),

    rank_rates AS (
        SELECT
            trace, rank, sum(calls) AS calls, sum(calls_with_size) AS calls_with_size,
            sum(wire_bytes) AS wire_bytes,
            CAST(sum(wire_bytes) AS DOUBLE) / sum(dur_ns) AS collective_bandwidth_gb_per_s,
            sum(mean_gb_per_s * wire_bytes ORDER BY collective) / nullif(sum(wire_bytes), 0) AS data_weighted_gb_per_s,
            100 * sum(linked_bytes) / nullif(sum(possible_bytes ORDER BY collective), 0) AS utilization_pct
        FROM rank_kinds
        WHERE NOT p2p
        GROUP BY trace, rank
    ),

    totals AS (
        SELECT
            trace,
            avg(collective_bandwidth_gb_per_s ORDER BY rank) AS collective_bandwidth_gb_per_s,
            avg(data_weighted_gb_per_s ORDER BY rank) AS data_weighted_gb_per_s,
            avg(utilization_pct ORDER BY rank) AS utilization_pct,
            CAST(sum(wire_bytes) AS DOUBLE) / 1e9 AS total_traffic_gb,
            TRY_CAST(sum(calls) AS BIGINT) AS calls,
            TRY_CAST(sum(calls_with_size) AS BIGINT) AS calls_with_size,
            array_agg({
                rank: rank, collective_bandwidth_gb_per_s: collective_bandwidth_gb_per_s,
                data_weighted_gb_per_s: data_weighted_gb_per_s, utilization_pct: utilization_pct,
                total_data_gb: CAST(wire_bytes AS DOUBLE) / 1e9, calls: CAST(calls AS BIGINT)
            } ORDER BY rank) AS per_rank
        FROM rank_rates
        GROUP BY trace
    ),

    kinds AS (
        SELECT
            trace, collective, count(*) AS calls, count(wire_bytes) AS calls_with_size,
            avg(bw_gb_per_s ORDER BY bw_gb_per_s) AS mean_gb_per_s,
            quantile_cont(bw_gb_per_s, 0.5) AS median_gb_per_s,
            min(bw_gb_per_s) AS min_gb_per_s,
            max(bw_gb_per_s) AS max_gb_per_s,
            CAST(sum(wire_bytes) AS DOUBLE) / sum(dur_ns) AS weighted_gb_per_s,
            CAST(sum(wire_bytes) AS DOUBLE) / 1e9 AS total_data_gb
        FROM events
        GROUP BY trace, collective
    ),

    kind_lists AS (
        SELECT
            trace,
            array_agg({
                collective: collective, calls: calls, calls_with_size: calls_with_size,
                mean_gb_per_s: mean_gb_per_s, median_gb_per_s: median_gb_per_s,
                min_gb_per_s: min_gb_per_s, max_gb_per_s: max_gb_per_s,
                weighted_gb_per_s: weighted_gb_per_s, total_data_gb: total_data_gb
            } ORDER BY collective) AS by_type
        FROM kinds
        GROUP BY trace
    )

SELECT
    t.trace, t.collective_bandwidth_gb_per_s, t.data_weighted_gb_per_s,
    t.utilization_pct, t.total_traffic_gb, t.calls, t.calls_with_size,
    CAST(t.calls_with_size AS DOUBLE) / nullif(t.calls, 0) AS size_coverage_ratio,
    k.by_type, t.per_rank
FROM totals AS t
INNER JOIN kind_lists AS k ON k.trace = t.trace
ORDER BY t.trace
