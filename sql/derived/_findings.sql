-- @derived  _findings
-- @summary  What the derived tables found odd; added to ingest_log.
-- @reads    collectives _end_offsets steps comm_args et_nodes et_links ranks
-- @caveat   Spans are compared after shifting each rank by its median end difference, so that a
--           constant clock offset is no finding, and widened by the median deviation from it, so
--           that a rank that leaves its calls at different times is none; spans that overlap as
--           recorded are none either.
WITH
    -- Kinds that no rank leaves before all have come; a root, or who sends, need not wait.
    shares AS (
        SELECT source, collective_id, rank, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns
        FROM collectives
        WHERE collective_id IS NOT NULL
            AND collective IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')
    ),

    aligned AS (
        SELECT
            l.collective_id,
            min(l.end_ns - s.offset_ns + s.spread_ns) AS first_end_ns,
            max(l.start_ns - s.offset_ns - s.spread_ns) AS last_start_ns,
            -- As recorded: clocks of one host need no shift.
            min(l.end_ns) < max(l.start_ns) AS are_apart
        FROM shares AS l
        INNER JOIN _end_offsets AS s ON s.source = l.source AND s.rank = l.rank
        GROUP BY l.collective_id
    ),

    apart AS (
        SELECT count(*) AS finding_count
        FROM aligned
        WHERE first_end_ns < last_start_ns AND are_apart
    ),

    -- Nodes that share their number with another of their file.
    doubled AS (
        SELECT rank, source_id, node_id, count(*) AS node_count
        FROM et_nodes
        WHERE node_id IS NOT NULL
        GROUP BY rank, source_id, node_id
        HAVING count(*) > 1
    ),

    implausible AS (
        SELECT count(*) AS finding_count
        FROM comm_args
        WHERE NOT (
            coalesce(group_size BETWEEN 1 AND 10000000, TRUE)
            AND coalesce(in_elems BETWEEN 0 AND 1099511627776, TRUE)
            AND coalesce(out_elems BETWEEN 0 AND 1099511627776, TRUE)
            AND coalesce(in_bytes BETWEEN 0 AND 17592186044416, TRUE)
            AND coalesce(out_bytes BETWEEN 0 AND 17592186044416, TRUE)
        )
    ),

    -- What all ranks of a call must agree on.
    unequal AS (
        SELECT count(*) AS finding_count
        FROM (
            SELECT collective_id
            FROM collectives
            WHERE collective_id IS NOT NULL
                AND collective IN ('all_reduce', 'all_gather', 'reduce_scatter', 'broadcast', 'reduce')
            GROUP BY collective_id
            HAVING min(message_bytes) <> max(message_bytes)
        ) AS calls
    ),

    inside_others AS (
        SELECT count(*) AS finding_count
        FROM (
            SELECT ts_ns < max(ts_ns + dur_ns) OVER (
                PARTITION BY source, rank ORDER BY ts_ns, step
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS is_inside
            FROM steps
        ) AS starts
        WHERE is_inside
    ),

    counts AS (
        SELECT
            CAST(NULL AS BIGINT) AS source_id,
            'calls-apart' AS code,
            finding_count,
            'calls whose spans on the ranks do not overlap, neither as recorded nor with clock offsets and their spread removed: perhaps matched wrongly'
                AS message
        FROM apart
        UNION ALL
        SELECT
            NULL,
            'size-implausible',
            finding_count,
            'events of communication that state a negative or impossible number of elements, bytes or ranks: it counts as unknown'
        FROM implausible
        UNION ALL
        SELECT
            NULL,
            'sizes-differ',
            finding_count,
            'matched calls whose ranks state different message sizes: perhaps matched wrongly; the largest counts'
        FROM unequal
        UNION ALL
        SELECT
            NULL,
            'steps-overlap',
            finding_count,
            'steps that begin before an earlier one of their rank has ended: markers are nested or doubled, and times of steps mislead'
        FROM inside_others
        UNION ALL
        SELECT
            source_id,
            'et-node-twice',
            CAST(sum(node_count) AS BIGINT),
            'nodes that share their number with another of the file; they are linked to nothing'
        FROM doubled
        GROUP BY source_id
        UNION ALL
        SELECT
            n.source_id,
            'et-unlinked',
            count(*),
            'records of communication (waits too) of the execution trace that are no event of the trace of their rank: no ids in common, and not the same calls in order'
        FROM et_nodes AS n
        LEFT JOIN et_links AS l
            ON l.rank = n.rank AND l.source_id = n.source_id AND l.node_id = n.node_id
        WHERE n.name = 'record_param_comms'
            AND n.rank IN (SELECT rank FROM ranks WHERE source = 'kineto')
            AND l.event_id IS NULL
        GROUP BY n.source_id
    )

SELECT
    source_id,
    code,
    'info' AS severity,
    finding_count AS "count",
    CAST(NULL AS BIGINT) AS first_offset,
    message
FROM counts
WHERE finding_count > 0
ORDER BY code, source_id
