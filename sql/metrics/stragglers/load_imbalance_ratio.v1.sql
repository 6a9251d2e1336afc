-- @metric   load_imbalance_ratio
-- @version  1
-- @area     stragglers
-- @summary  Compute time of the rank that computes longest, over the mean of the ranks: 1 is
--           balanced.
-- @grain    trace
-- @requires device_events
-- @reads    _rank_times steps _device_counts
-- @value    load_imbalance_ratio
-- @answer   'rank ' || slowest_rank || ' computes longest, rank ' || fastest_rank || ' shortest'
-- @check    (SELECT count(DISTINCT rank) FROM _device_counts) > 1
--           | the trace has device events of one rank only
-- @check    (SELECT count(*) FROM _device_counts WHERE class = 'graph') = 0
--           | whole CUDA graphs were traced, so that what computes inside them is not in the trace
-- @check    (SELECT count(*) FROM _device_counts WHERE class = 'other' AND nameless_events > 0) = 0
--           | the names of some kernels are lost, and with them whether they compute
-- @check    (SELECT count(*) FROM _rank_times WHERE kernel_ns > 0) <> 1
--           | one rank alone runs kernels on a device
-- @null     no rank computes on a device
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   load_imbalance_ratio DOUBLE value ratio lower | Largest |compute| over ranks / mean
--           over ranks; unions per device, summed over the devices of a rank.
-- @column   min_over_mean_ratio DOUBLE value ratio higher | Least |compute| / mean.
-- @column   max_over_min_ratio DOUBLE value ratio lower | Largest |compute| / least; NULL where a
--           rank does not compute.
-- @column   kernel_max_over_min_ratio DOUBLE value ratio lower | Largest |kernels|, communication
--           included, / least: what the earlier tool of the name gives.
-- @column   slowest_rank BIGINT value - | Rank that computes longest (the lowest of equals).
-- @column   fastest_rank BIGINT value - | Rank that computes shortest (the lowest of equals).
-- @column   mean_compute_ms DOUBLE value ms | Mean over ranks.
-- @column   num_ranks BIGINT value count | Ranks that run kernels on a device: one whose device
--           only gets copies is no rank of compute.
-- @column   per_rank LIST value - | Compute and kernel time of each rank, and compute over the
--           mean.
-- @caveat   The tool that set the name counts waiting inside kernels of communication as load, and
--           so hides imbalance (kernel_max_over_min_ratio).
-- @warn     (SELECT count(DISTINCT step_count) > 1 FROM (SELECT rank, count(*) AS step_count FROM
--           steps GROUP BY rank) AS counts)
--           | the traces of the ranks cover different numbers of steps, and differ for that alone
-- @source   metrics 2.I load_imbalance_ratio (defect D63)
WITH
    times AS (
        SELECT trace, rank, compute_ns, kernel_ns
        FROM _rank_times
        WHERE kernel_ns > 0
    ),

    means AS (
        SELECT trace, avg(compute_ns) AS mean_ns
        FROM times
        GROUP BY trace
    ),

    slowest AS (
        SELECT trace, rank
        FROM times
        WHERE compute_ns > 0
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY compute_ns DESC, rank) = 1
    ),

    fastest AS (
        SELECT trace, rank
        FROM times
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY compute_ns, rank) = 1
    ),

    totals AS (
        SELECT
            t.trace,
            max(t.compute_ns) / nullif(max(m.mean_ns), 0) AS max_over_mean,
            min(t.compute_ns) / nullif(max(m.mean_ns), 0) AS min_over_mean,
            CAST(max(t.compute_ns) AS DOUBLE) / nullif(min(t.compute_ns), 0) AS max_over_min,
            CAST(max(t.kernel_ns) AS DOUBLE) / nullif(min(t.kernel_ns), 0) AS kernel_max_over_min,
            max(m.mean_ns) / 1e6 AS mean_ms,
            count(*) AS num_ranks,
            array_agg({
                rank: t.rank, compute_ms: t.compute_ns / 1e6, kernel_ms: t.kernel_ns / 1e6,
                compute_over_mean: t.compute_ns / nullif(m.mean_ns, 0)
            } ORDER BY t.rank) AS per_rank
        FROM times AS t
        INNER JOIN means AS m ON m.trace = t.trace
        GROUP BY t.trace
    )

SELECT
    t.trace,
    t.max_over_mean AS load_imbalance_ratio,
    t.min_over_mean AS min_over_mean_ratio,
    t.max_over_min AS max_over_min_ratio,
    t.kernel_max_over_min AS kernel_max_over_min_ratio,
    s.rank AS slowest_rank,
    CASE WHEN s.rank IS NOT NULL THEN f.rank END AS fastest_rank,
    t.mean_ms AS mean_compute_ms,
    t.num_ranks,
    t.per_rank
FROM totals AS t
LEFT JOIN slowest AS s ON s.trace = t.trace
LEFT JOIN fastest AS f ON f.trace = t.trace
ORDER BY t.trace
