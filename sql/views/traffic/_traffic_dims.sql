-- @view     _traffic_dims
-- @summary  Communication events with the parallel dimension that they serve: dp, tp, pp, ep, cp or
--           unknown.
-- @requires collectives
-- @reads    process_groups cards ranks _range_dims
-- @caveat   The mode says what told the dimensions apart in a trace: description of the groups,
--           ranges around the calls (for calls in none the card, else the kind), degrees of the
--           card, stride of the ranks, or the kind alone. A range also counts for the groups whose
--           description says nothing.
-- @source   metrics 2.C traffic_distribution
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
                WHEN list_max(g.ranks) - list_min(g.ranks) = len(g.ranks) - 1 THEN 'tp'
                ELSE 'dp'
            END AS stride_dim
        FROM process_groups AS g
        LEFT JOIN worlds AS w ON w.trace = g.trace
    ),

    degrees AS (
        SELECT trace, 'dp' AS dim, dp_replicate * dp_shard AS degree FROM cards
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
        HAVING count(*) = 1
    ),

    -- The only dimension of a card is that of calls of the whole job, whose group nothing states.
    only_plan AS (
        SELECT trace, max(degree) AS degree, min(dim) AS card_dim
        FROM degrees
        WHERE degree > 1
        GROUP BY trace
        HAVING count(DISTINCT dim) = 1
    ),

    calls AS (
        SELECT
            c.trace, c.event_id, c.rank, c.device, c.ts_ns, c.dur_ns, c.step,
            c.collective,
            c.wire_bytes,
            s.dim AS description_dim,
            r.range_dim,
            coalesce(p.card_dim, o.card_dim) AS card_dim,
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
        LEFT JOIN only_plan AS o ON o.trace = c.trace AND o.degree = c.group_size
        LEFT JOIN _range_dims AS r ON r.trace = c.trace AND r.event_id = c.event_id
    ),

    modes AS (
        SELECT
            trace,
            CASE
                WHEN count(description_dim) > 0 THEN 'description'
                WHEN count(range_dim) > 0 THEN 'range'
                WHEN count(card_dim) > 0 THEN 'card'
                WHEN count(stride_dim) > 0 THEN 'stride'
                ELSE 'kernel_name'
            END AS mode
        FROM calls
        GROUP BY trace
    )

SELECT
    c.trace, c.event_id, c.rank, c.device, c.ts_ns, c.dur_ns, c.step, c.collective, c.wire_bytes, m.mode,
    coalesce(
        CASE m.mode
            WHEN 'description' THEN coalesce(c.description_dim, c.range_dim)
            WHEN 'range' THEN coalesce(c.range_dim, c.card_dim, c.kind_dim)
            WHEN 'card' THEN c.card_dim
            WHEN 'stride' THEN c.stride_dim
            ELSE c.kind_dim
        END,
        'unknown'
    ) AS dim
FROM calls AS c
INNER JOIN modes AS m ON m.trace = c.trace
