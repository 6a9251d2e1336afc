-- @metric   copy_bandwidth_gb_per_s
-- @version  1
-- @area     devices
-- @summary  Bytes that copies move per second of their own time, over all and by direction.
-- @grain    trace
-- @requires device_events
-- @reads    _copy_rates _device_counts
-- @value    copy_bandwidth_gb_per_s
-- @alias    average_memory_bandwidth
-- @check    (SELECT count(*) FROM _device_counts WHERE class = 'copy') > 0
--           | the trace has no copies
-- @check    (SELECT count(*) FROM _device_counts WHERE class = 'copy' AND sized_events > 0) > 0
--           | no copy states its bytes
-- @coverage known_ratio | the size of the copies is, by their time,
-- @null     no copy takes time
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   copy_bandwidth_gb_per_s DOUBLE value gb_per_s higher | Sum of bytes / sum of durations
--           of the copies that state their bytes and take time, over all ranks (10^9 bytes).
-- @column   h2d_gb_per_s DOUBLE value gb_per_s higher | The same of copies from host to device;
--           NULL without any; so too the next ones.
-- @column   d2h_gb_per_s DOUBLE value gb_per_s higher | From device to host.
-- @column   d2d_gb_per_s DOUBLE value gb_per_s higher | Inside a device.
-- @column   p2p_gb_per_s DOUBLE value gb_per_s higher | Between devices.
-- @column   by_direction LIST value - | By direction (NULL for unknown), most bytes first: copies,
--           of these with_bytes, copied_bytes, time_ms, gb_per_s, median_gb_per_s of the single
--           copies.
-- @column   copied_bytes DOUBLE value bytes | Bytes of all copies.
-- @column   copy_time_ms DOUBLE value ms | Durations of all copies, all ranks.
-- @column   copy_count BIGINT value count | Copies of all ranks.
-- @column   known_ratio DOUBLE value ratio | Share of the copy time whose bytes are known.
-- @column   per_rank MAP value gb_per_s | The rate of each rank.
-- @caveat   Directions are no more alike than PCIe and the memory of a device: read by_direction,
--           not the sum. Small copies take as long as their latency.
-- @caveat   Copies that run at the same time share a link: their rates are lower than that of the
--           link. An asynchronous copy of XLA lasts from its start to its done.
-- @source   metrics 2.G average_memory_bandwidth_gbps (defect D56: device copies only, by
--           direction)
WITH
    moves AS (
        SELECT
            trace, rank, direction, bytes, dur_ns,
            bytes IS NOT NULL AND dur_ns > 0 AS is_known
        FROM _copy_rates
    ),

    directions AS (
        SELECT
            trace, direction,
            count(*) AS copy_count,
            count(bytes) AS sized_count,
            CAST(sum(bytes) AS DOUBLE) AS copied_bytes,
            sum(dur_ns) AS dur_ns,
            CAST(sum(bytes) FILTER (WHERE is_known) AS DOUBLE)
                / nullif(sum(dur_ns) FILTER (WHERE is_known), 0) AS gb_per_s,
            median(bytes / dur_ns) FILTER (WHERE is_known) AS median_gb_per_s
        FROM moves
        GROUP BY trace, direction
    ),

    direction_lists AS (
        SELECT
            trace,
            max(gb_per_s) FILTER (WHERE direction = 'h2d') AS h2d_gb_per_s,
            max(gb_per_s) FILTER (WHERE direction = 'd2h') AS d2h_gb_per_s,
            max(gb_per_s) FILTER (WHERE direction = 'd2d') AS d2d_gb_per_s,
            max(gb_per_s) FILTER (WHERE direction = 'p2p') AS p2p_gb_per_s,
            array_agg({
                direction: direction, copies: copy_count, with_bytes: sized_count,
                copied_bytes: copied_bytes, time_ms: dur_ns / 1e6, gb_per_s: gb_per_s,
                median_gb_per_s: median_gb_per_s
            } ORDER BY copied_bytes DESC NULLS LAST, direction NULLS LAST) AS by_direction
        FROM directions
        GROUP BY trace
    ),

    rank_rates AS (
        SELECT
            trace, rank,
            CAST(sum(bytes) FILTER (WHERE is_known) AS DOUBLE)
                / nullif(sum(dur_ns) FILTER (WHERE is_known), 0) AS gb_per_s
        FROM moves
        WHERE rank IS NOT NULL
        GROUP BY trace, rank
    ),

    rank_maps AS (
        SELECT
            trace,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(gb_per_s ORDER BY rank))
                AS per_rank
        FROM rank_rates
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace,
            CAST(sum(bytes) FILTER (WHERE is_known) AS DOUBLE)
                / nullif(sum(dur_ns) FILTER (WHERE is_known), 0) AS gb_per_s,
            CAST(sum(bytes) AS DOUBLE) AS copied_bytes,
            sum(dur_ns) / 1e6 AS time_ms,
            count(*) AS copy_count,
            CAST(coalesce(sum(dur_ns) FILTER (WHERE bytes IS NOT NULL), 0) AS DOUBLE)
                / nullif(sum(dur_ns), 0) AS known_ratio
        FROM moves
        GROUP BY trace
    )

SELECT
    t.trace, t.gb_per_s AS copy_bandwidth_gb_per_s, d.h2d_gb_per_s, d.d2h_gb_per_s,
    d.d2d_gb_per_s, d.p2p_gb_per_s, d.by_direction, t.copied_bytes, t.time_ms AS copy_time_ms,
    t.copy_count, t.known_ratio, r.per_rank
FROM totals AS t
INNER JOIN direction_lists AS d ON d.trace = t.trace
LEFT JOIN rank_maps AS r ON r.trace = t.trace
ORDER BY t.trace
