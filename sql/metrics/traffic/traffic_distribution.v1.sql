-- @metric   traffic_distribution
-- @version  1
-- @area     traffic
-- @summary  Wire bytes by parallel dimension (data, tensor, pipeline, expert, context), all ranks.
-- @grain    trace
-- @nvtx     partial
-- @requires collectives
-- @reads    _traffic_dims _kernel_coverage
-- @value    largest_fraction
-- @coverage size_coverage_ratio | message size and group size are
-- @check    (SELECT count(wire_bytes) FROM collectives) > 0
--           | of no call are message size and group size known
-- @check    (SELECT max(wire_bytes) FROM collectives) > 0 | no call sends bytes to another rank
-- @null     no bytes can be given to a parallel dimension: no description of a group and no range
--           names one, and neither card, ranks of the groups nor kinds of the calls tell
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   largest_fraction DOUBLE value ratio | Share of the known dimension with most wire
--           bytes, of all wire bytes; what is of no known dimension may hold more.
-- @column   dp_bytes BIGINT value bytes | Data parallel; 0 without such calls, NULL where no
--           dimension was told apart.
-- @column   tp_bytes BIGINT value bytes | Tensor parallel.
-- @column   pp_bytes BIGINT value bytes | Pipeline parallel.
-- @column   ep_bytes BIGINT value bytes | Expert parallel.
-- @column   cp_bytes BIGINT value bytes | Context parallel.
-- @column   unknown_bytes BIGINT value bytes | Of no known dimension.
-- @column   fractions MAP value ratio | Share of each dimension of all wire bytes.
-- @column   total_comm_calls BIGINT value calls | Calls, all ranks.
-- @column   size_coverage_ratio DOUBLE value ratio | Share of the calls whose wire bytes are known
--           (barriers, which carry none, left out).
-- @column   mode VARCHAR value - | What told the dimensions apart: description (of the groups),
--           range (ranges named dp, tp, pp, ep or cp around the calls), card, stride or
--           kernel_name.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @warn     mode = 'stride'
--           | nothing names the dimensions: groups of neighbouring ranks are taken as tensor
--           parallel, the others as data parallel
-- @warn     mode = 'kernel_name'
--           | nothing names the dimensions: all-to-all is taken as expert, send and receive as
--           pipeline, reduce-scatter as data parallel; all else is unknown
-- @source   metrics 2.C traffic_distribution and 1.4 (defect D30: bytes, not durations; each call
--           once)
WITH
    totals AS (
        SELECT
            trace,
            mode,
            CASE WHEN bool_or(dim <> 'unknown')
                THEN TRY_CAST(coalesce(sum(wire_bytes) FILTER (WHERE dim = 'dp'), 0) AS BIGINT) END AS dp_bytes,
            CASE WHEN bool_or(dim <> 'unknown')
                THEN TRY_CAST(coalesce(sum(wire_bytes) FILTER (WHERE dim = 'tp'), 0) AS BIGINT) END AS tp_bytes,
            CASE WHEN bool_or(dim <> 'unknown')
                THEN TRY_CAST(coalesce(sum(wire_bytes) FILTER (WHERE dim = 'pp'), 0) AS BIGINT) END AS pp_bytes,
            CASE WHEN bool_or(dim <> 'unknown')
                THEN TRY_CAST(coalesce(sum(wire_bytes) FILTER (WHERE dim = 'ep'), 0) AS BIGINT) END AS ep_bytes,
            CASE WHEN bool_or(dim <> 'unknown')
                THEN TRY_CAST(coalesce(sum(wire_bytes) FILTER (WHERE dim = 'cp'), 0) AS BIGINT) END AS cp_bytes,
            TRY_CAST(coalesce(sum(wire_bytes) FILTER (WHERE dim = 'unknown'), 0) AS BIGINT) AS unknown_bytes,
            CAST(nullif(sum(wire_bytes), 0) AS DOUBLE) AS all_bytes,
            count(*) AS total_comm_calls,
            CAST(count(wire_bytes) AS DOUBLE)
                / nullif(count(*) FILTER (WHERE collective <> 'barrier'), 0) AS size_coverage_ratio
        FROM _traffic_dims
        GROUP BY trace, mode
    )

SELECT
    trace,
    nullif(greatest(dp_bytes, tp_bytes, pp_bytes, ep_bytes, cp_bytes), 0) / all_bytes
        AS largest_fraction,
    dp_bytes, tp_bytes, pp_bytes, ep_bytes, cp_bytes, unknown_bytes,
    map(
        ['dp', 'tp', 'pp', 'ep', 'cp', 'unknown'],
        [dp_bytes / all_bytes, tp_bytes / all_bytes, pp_bytes / all_bytes,
            ep_bytes / all_bytes, cp_bytes / all_bytes, unknown_bytes / all_bytes]
    ) AS fractions,
    total_comm_calls,
    size_coverage_ratio,
    mode
FROM totals
ORDER BY trace
