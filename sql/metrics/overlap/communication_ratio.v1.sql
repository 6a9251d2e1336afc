-- @metric   communication_ratio
-- @version  1
-- @area     overlap
-- @summary  Share of the busy time of a rank's devices in which it communicates, mean over ranks;
--           with the share of each parallel dimension.
-- @grain    trace
-- @nvtx     partial
-- @requires device_events
-- @reads    _traffic_dims _device_times _kernel_coverage _class_reasons
-- @value    communication_ratio
-- @alias    communication_overhead comm_busy_fraction
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'communication')
--           | the names of some kernels are lost, or communication is in CUDA graphs that were
--           traced as a whole
-- @null     no rank has a device that is busy
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   communication_ratio DOUBLE value ratio lower | |comm| / |all device events| of a rank,
--           mean over the ranks with a busy device: unions per device, summed over the devices of a
--           rank. A rank that does not communicate counts as 0.
-- @column   per_rank MAP value ratio | The ratio of each rank.
-- @column   min_ratio DOUBLE value ratio | Smallest of them.
-- @column   max_ratio DOUBLE value ratio | Largest of them.
-- @column   dp_ratio DOUBLE value ratio | |comm| of data parallelism / |all device events|, mean
--           over the same ranks; 0 without such events, NULL where no dimension was told apart.
-- @column   tp_ratio DOUBLE value ratio | Of tensor parallelism.
-- @column   pp_ratio DOUBLE value ratio | Of pipeline parallelism.
-- @column   ep_ratio DOUBLE value ratio | Of expert parallelism.
-- @column   cp_ratio DOUBLE value ratio | Of context parallelism.
-- @column   unknown_ratio DOUBLE value ratio | Of no known dimension.
-- @column   mode VARCHAR value - | What told the dimensions apart: description (of the groups),
--           range (ranges named dp, tp, pp, ep or cp around the calls), card, stride or
--           kernel_name; NULL without communication.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @caveat   Where dimensions communicate at the same time, their shares add up to more than the
--           whole. Waiting for late ranks counts as communication.
-- @source   product 6 communication_ratio; metrics 2.C communication_fraction_pct
--           (comm_busy_fraction; defects D26, D27), 2.M comm_ratio
WITH
    ranks_busy AS (
        SELECT trace, rank, TRY_CAST(sum(comm_ns) AS BIGINT) AS comm_ns, TRY_CAST(sum(busy_ns) AS BIGINT) AS busy_ns
        FROM _device_times
        WHERE device IS NOT NULL
        GROUP BY trace, rank
    ),

    dim_spans AS (
        SELECT
            trace, rank, device, dim, mode,
            interval_union_ns(array_agg({start_ns: ts_ns, end_ns: ts_ns + dur_ns})) AS union_ns
        FROM _traffic_dims
        WHERE device IS NOT NULL AND dur_ns IS NOT NULL
        GROUP BY trace, rank, device, dim, mode
    ),

    dim_ranks AS (
        SELECT trace, rank, dim, CAST(sum(union_ns) AS DOUBLE) AS union_ns
        FROM dim_spans
        GROUP BY trace, rank, dim
    ),

    dim_ratios AS (
        SELECT d.trace, d.dim, sum(d.union_ns / b.busy_ns ORDER BY d.rank) AS ratio_sum
        FROM dim_ranks AS d
        INNER JOIN ranks_busy AS b ON b.trace = d.trace AND b.rank = d.rank
        GROUP BY d.trace, d.dim
    ),

    dims AS (
        SELECT
            trace,
            bool_or(dim <> 'unknown') AS known,
            max(ratio_sum) FILTER (WHERE dim = 'dp') AS dp,
            max(ratio_sum) FILTER (WHERE dim = 'tp') AS tp,
            max(ratio_sum) FILTER (WHERE dim = 'pp') AS pp,
            max(ratio_sum) FILTER (WHERE dim = 'ep') AS ep,
            max(ratio_sum) FILTER (WHERE dim = 'cp') AS cp,
            max(ratio_sum) FILTER (WHERE dim = 'unknown') AS unknown
        FROM dim_ratios
        GROUP BY trace
    ),

    modes AS (
        SELECT trace, max(mode) AS mode
        FROM dim_spans
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace,
            count(*) AS rank_count,
            avg(CAST(comm_ns AS DOUBLE) / busy_ns ORDER BY rank) AS communication_ratio,
            map(
                array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
                array_agg(CAST(comm_ns AS DOUBLE) / busy_ns ORDER BY rank)
            ) AS per_rank,
            min(CAST(comm_ns AS DOUBLE) / busy_ns) AS min_ratio,
            max(CAST(comm_ns AS DOUBLE) / busy_ns) AS max_ratio
        FROM ranks_busy
        GROUP BY trace
    )

SELECT
    t.trace, t.communication_ratio, t.per_rank, t.min_ratio, t.max_ratio,
    CASE WHEN d.known THEN coalesce(d.dp, 0) / t.rank_count END AS dp_ratio,
    CASE WHEN d.known THEN coalesce(d.tp, 0) / t.rank_count END AS tp_ratio,
    CASE WHEN d.known THEN coalesce(d.pp, 0) / t.rank_count END AS pp_ratio,
    CASE WHEN d.known THEN coalesce(d.ep, 0) / t.rank_count END AS ep_ratio,
    CASE WHEN d.known THEN coalesce(d.cp, 0) / t.rank_count END AS cp_ratio,
    coalesce(d.unknown, 0) / t.rank_count AS unknown_ratio,
    m.mode
FROM totals AS t
LEFT JOIN dims AS d ON d.trace = t.trace
LEFT JOIN modes AS m ON m.trace = t.trace
ORDER BY t.trace
