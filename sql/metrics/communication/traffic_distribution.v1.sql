-- @metric   traffic_distribution
-- @version  1
-- @area     communication
-- @summary  Wire bytes by parallel dimension (data, tensor, pipeline, expert, context), all ranks.
-- @grain    trace
-- @nvtx     partial
-- @requires collectives
-- @reads    process_groups cards ranks
-- @value    largest_fraction
-- @coverage size_coverage_ratio | message size and group size are
-- @null     no traffic can be given to a parallel dimension: groups carry no description, and neither card nor ranks tell them apart
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   largest_fraction DOUBLE value ratio | Share of the dimension with most wire bytes, of all wire bytes.
-- @column   dp_bytes BIGINT value bytes | Data parallel.
-- @column   tp_bytes BIGINT value bytes | Tensor parallel.
-- @column   pp_bytes BIGINT value bytes | Pipeline parallel.
-- @column   ep_bytes BIGINT value bytes | Expert parallel.
-- @column   cp_bytes BIGINT value bytes | Context parallel.
-- @column   unknown_bytes BIGINT value bytes | Of no known dimension.
-- @column   fractions MAP value ratio | Share of each dimension of all wire bytes.
-- @column   total_comm_calls BIGINT value calls | Calls, all ranks.
-- @column   size_coverage_ratio DOUBLE value ratio | Share of the calls whose wire bytes are known (barriers, which carry none, left out).
-- @column   mode VARCHAR value - | What told the dimensions apart: description, card, stride or kernel_name.
-- @caveat   Mode stride takes groups of neighbouring ranks as tensor parallel and the others as data parallel; mode kernel_name knows only all-to-all (ep), send and receive (pp) and reduce-scatter (dp).
-- @source   metrics 2.C traffic_distribution and 1.4 (defect D30: bytes, not durations; each call once)
WITH
    worlds AS (
        SELECT trace, max(world_size) AS world_size
        FROM ranks
        GROUP BY trace
    ),

    strides AS (
        SELECT
            g.trace,
            g.pg_id,
            g.dim,
            CASE
                WHEN len(g.ranks) < 2 OR len(g.ranks) >= w.world_size THEN NULL
                WHEN g.ranks[len(g.ranks)] - g.ranks[1] = len(g.ranks) - 1 THEN 'tp'
                ELSE 'dp'
            END AS stride_dim
        FROM process_groups AS g
        LEFT JOIN worlds AS w ON w.trace = g.trace
    ),

    degrees AS (
        SELECT trace, 'dp' AS dim, coalesce(dp_replicate, 1) * coalesce(dp_shard, 1) AS degree FROM cards
        UNION
        SELECT trace, 'dp', dp_replicate FROM cards
        UNION
        SELECT trace, 'dp', dp_shard FROM cards
        UNION
        SELECT trace, 'tp', tp FROM cards
        UNION
        SELECT trace, 'pp', pp FROM cards
        UNION
        SELECT trace, 'ep', ep FROM cards
        UNION
        SELECT trace, 'cp', cp FROM cards
    ),

    -- A degree tells a dimension only when no other dimension has the same.
    plan AS (
        SELECT trace, degree, min(dim) AS card_dim
        FROM degrees
        WHERE degree > 1
        GROUP BY trace, degree
        HAVING count(DISTINCT dim) = 1
    ),

    calls AS (
        SELECT
            c.trace,
            c.collective,
            c.wire_bytes,
            s.dim AS description_dim,
            p.card_dim,
            s.stride_dim,
            CASE
                WHEN c.collective = 'all_to_all' THEN 'ep'
                WHEN c.collective IN ('send', 'recv', 'send_recv') THEN 'pp'
                WHEN c.collective = 'reduce_scatter' THEN 'dp'
            END AS kind_dim
        FROM collectives AS c
        LEFT JOIN strides AS s ON s.trace = c.trace AND s.pg_id = c.pg_id
        LEFT JOIN plan AS p
            ON p.trace = c.trace AND p.degree = c.group_size AND c.group_source = 'stated'
    ),

    modes AS (
        SELECT
            trace,
            CASE
                WHEN count(description_dim) > 0 THEN 'description'
                WHEN count(card_dim) > 0 THEN 'card'
                WHEN count(stride_dim) > 0 THEN 'stride'
                ELSE 'kernel_name'
            END AS mode
        FROM calls
        GROUP BY trace
    ),

    placed AS (
        SELECT
            c.trace,
            m.mode,
            c.collective,
            c.wire_bytes,
            coalesce(
                CASE m.mode
                    WHEN 'description' THEN c.description_dim
                    WHEN 'card' THEN c.card_dim
                    WHEN 'stride' THEN c.stride_dim
                    ELSE c.kind_dim
                END,
                'unknown'
            ) AS dim
        FROM calls AS c
        INNER JOIN modes AS m ON m.trace = c.trace
    ),

    totals AS (
        SELECT
            trace,
            mode,
            CAST(coalesce(sum(wire_bytes) FILTER (WHERE dim = 'dp'), 0) AS BIGINT) AS dp_bytes,
            CAST(coalesce(sum(wire_bytes) FILTER (WHERE dim = 'tp'), 0) AS BIGINT) AS tp_bytes,
            CAST(coalesce(sum(wire_bytes) FILTER (WHERE dim = 'pp'), 0) AS BIGINT) AS pp_bytes,
            CAST(coalesce(sum(wire_bytes) FILTER (WHERE dim = 'ep'), 0) AS BIGINT) AS ep_bytes,
            CAST(coalesce(sum(wire_bytes) FILTER (WHERE dim = 'cp'), 0) AS BIGINT) AS cp_bytes,
            CAST(coalesce(sum(wire_bytes) FILTER (WHERE dim = 'unknown'), 0) AS BIGINT) AS unknown_bytes,
            CAST(nullif(sum(wire_bytes), 0) AS DOUBLE) AS all_bytes,
            count(*) AS total_comm_calls,
            CAST(count(wire_bytes) AS DOUBLE)
                / nullif(count(*) FILTER (WHERE collective <> 'barrier'), 0) AS size_coverage_ratio
        FROM placed
        GROUP BY trace, mode
    ),

    final AS (
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
    )

SELECT
    trace, largest_fraction, dp_bytes, tp_bytes, pp_bytes, ep_bytes, cp_bytes, unknown_bytes,
    fractions, total_comm_calls, size_coverage_ratio, mode
FROM final
ORDER BY trace
