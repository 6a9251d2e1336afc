-- @derived  et_links
-- @partition rank
-- @summary  Which event of Kineto a node of the execution trace of the same rank is.
-- @requires host_events et_nodes
-- @caveat   Newer traces share the record function id. Older ones share no id: there only
--           record_param_comms are linked, in the order of each thread, where threads, counts and
--           dimensions are all equal.
-- @source   formats_kineto section 4 (execution traces)
WITH
    -- A number that comes twice in a file names no node.
    nodes AS (
        SELECT rank, source_id, node_id, name, rf_id, tid, pid, input_shapes
        FROM et_nodes
        WHERE node_id IS NOT NULL
        QUALIFY count(*) OVER (PARTITION BY rank, source_id, node_id) = 1
    ),

    events AS (
        SELECT
            h.rank, h.event_id, h.name, h.ts_ns, h.pid, h.tid,
            TRY_CAST(json_extract_string(h.args, '$."Record function id"') AS BIGINT) AS record_id,
            CASE WHEN h.name = 'record_param_comms' THEN json_extract(h.args, '$."Input Dims"') END
                AS dims
        FROM host_events AS h
        WHERE h.source = 'kineto'
            AND h.class IN ('host_op', 'host_annotation')
            AND h.rank IN (SELECT rank FROM et_nodes)
    ),

    by_id AS (
        SELECT n.rank, n.source_id, n.node_id, e.event_id
        FROM nodes AS n
        INNER JOIN events AS e
            ON e.rank = n.rank
            AND e.record_id = n.rf_id
            AND e.name = n.name
            -- Another process counts its own functions.
            AND (e.pid = n.pid OR e.pid IS NULL OR n.pid IS NULL)
        WHERE e.record_id > 0
        QUALIFY row_number() OVER (PARTITION BY e.event_id ORDER BY n.source_id, n.node_id) = 1
            AND row_number() OVER (
                PARTITION BY n.rank, n.source_id, n.node_id ORDER BY e.event_id
            ) = 1
    ),

    -- Records of the execution trace, with the place of each in its thread.
    traced AS (
        SELECT
            rank, source_id, node_id, tid, pid, input_shapes,
            row_number() OVER (PARTITION BY rank, source_id, tid ORDER BY node_id) AS place,
            min(node_id) OVER (PARTITION BY rank, source_id, tid) AS thread_start
        FROM nodes
        WHERE name = 'record_param_comms' AND tid IS NOT NULL
    ),

    traced_threads AS (
        SELECT
            rank, source_id, node_id, pid, place, input_shapes,
            dense_rank() OVER (PARTITION BY rank, source_id ORDER BY thread_start) AS thread
        FROM traced
    ),

    -- Those of Kineto, where they say no id.
    recorded AS (
        SELECT
            rank, event_id, pid, tid, ts_ns, dims,
            row_number() OVER (PARTITION BY rank, pid, tid ORDER BY ts_ns, event_id) AS place,
            first_value(event_id) OVER (PARTITION BY rank, pid, tid ORDER BY ts_ns, event_id)
                AS first_event_id,
            min(ts_ns) OVER (PARTITION BY rank, pid, tid) AS thread_start_ns
        FROM events
        WHERE name = 'record_param_comms'
        QUALIFY count(*) FILTER (record_id > 0) OVER (PARTITION BY rank) = 0
    ),

    recorded_threads AS (
        SELECT
            rank, event_id, pid, place, dims,
            dense_rank() OVER (PARTITION BY rank ORDER BY thread_start_ns, first_event_id) AS thread
        FROM recorded
    ),

    files AS (
        SELECT DISTINCT rank, source_id
        FROM traced
    ),

    -- Every record of both sides; what has no partner breaks the order of its file.
    wanted AS (
        SELECT f.rank, f.source_id, r.event_id, r.pid, r.thread, r.place, r.dims
        FROM files AS f
        INNER JOIN recorded_threads AS r ON r.rank = f.rank
    ),

    pairs AS (
        SELECT
            coalesce(w.rank, t.rank) AS rank,
            coalesce(w.source_id, t.source_id) AS source_id,
            t.node_id,
            w.event_id,
            -- Dimensions of a list of tensors are not in Kineto; those of one tensor are.
            w.event_id IS NOT NULL
                AND t.node_id IS NOT NULL
                AND (w.pid = t.pid OR w.pid IS NULL OR t.pid IS NULL)
                AND json_array_length(w.dims) > 0
                AND CASE WHEN json_valid(t.input_shapes)
                    THEN json_array_length(w.dims) = json_array_length(t.input_shapes)
                        AND (
                            TRY_CAST(json_extract(w.dims, '$[0]') AS BIGINT[])
                                = TRY_CAST(json_extract(t.input_shapes, '$[0]') AS BIGINT[])
                            OR json_array_length(json_extract(w.dims, '$[0]')) = 0
                                AND TRY_CAST(json_extract(t.input_shapes, '$[0][0]') AS BIGINT) IS NULL
                        )
                END AS fits
        FROM wanted AS w
        FULL JOIN traced_threads AS t
            ON t.rank = w.rank
            AND t.source_id = w.source_id
            AND t.thread = w.thread
            AND t.place = w.place
    ),

    in_order AS (
        SELECT rank, source_id, node_id, event_id
        FROM pairs
        QUALIFY bool_and(coalesce(fits, false)) OVER (PARTITION BY rank, source_id)
    ),

    by_order AS (
        SELECT rank, source_id, node_id, event_id
        FROM in_order
        QUALIFY row_number() OVER (PARTITION BY event_id ORDER BY source_id) = 1
    )

SELECT rank, source_id, node_id, event_id, 'record_id' AS linked_by
FROM by_id
UNION ALL
SELECT o.rank, o.source_id, o.node_id, o.event_id, 'order'
FROM by_order AS o
ANTI JOIN by_id AS i ON i.event_id = o.event_id
ORDER BY rank, event_id
