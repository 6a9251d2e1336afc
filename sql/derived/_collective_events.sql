-- @derived  _collective_events
-- @partition rank
-- @summary  Communication events of each rank with kind, sizes and group as far as the rank itself says.
-- @requires device_events host_events launches metadata
-- @source   formats_kineto sections 4 and 7; metrics 1.3 and 1.4
WITH
    -- Communication on devices, with the host operations around its launch.
    device_calls AS (
        SELECT
            d.source, d.rank, d.event_id, d.device, d.stream, d.ts_ns, d.dur_ns, d.name, d.args,
            l.launch_ts_ns AS step_ts_ns,
            l.record_event_id, l.annotation_event_id, l.comm_op_event_id
        FROM device_events AS d
        LEFT JOIN launches AS l ON l.event_id = d.event_id
        WHERE d.class = 'comm'
    ),

    host_operations AS (
        SELECT rank, event_id, class, name, ts_ns, dur_ns, args
        FROM host_events
        WHERE name = 'record_param_comms'
            OR name LIKE 'nccl:%'
            OR name LIKE 'c10d::%'
            OR name LIKE 'gloo:%'
    ),

    -- On a rank without any device, gloo's own annotations are the calls: the real span on its thread.
    host_calls AS (
        SELECT
            'kineto' AS source, h.rank, h.event_id, h.ts_ns, h.dur_ns, h.name, h.args,
            o.event_id AS comm_op_event_id
        FROM host_operations AS h
        LEFT JOIN host_operations AS o
            ON o.rank = h.rank
            AND o.name LIKE 'c10d::%'
            AND TRY_CAST(json_extract_string(o.args, '$."Record function id"') AS BIGINT) > 0
            AND TRY_CAST(json_extract_string(h.args, '$."Record function id"') AS BIGINT)
                = TRY_CAST(json_extract_string(o.args, '$."Record function id"') AS BIGINT) + 1
        WHERE h.class = 'host_annotation'
            AND h.name LIKE 'gloo:%'
            AND h.dur_ns IS NOT NULL
            AND NOT EXISTS (
                SELECT 1 FROM device_events AS d
                WHERE d.rank = h.rank AND d.class IN ('comm', 'compute', 'copy', 'set')
            )
        QUALIFY row_number() OVER (PARTITION BY h.event_id ORDER BY o.event_id) = 1
    ),

    calls AS (
        SELECT
            c.source, c.rank, c.event_id, c.device, c.stream, c.ts_ns, c.dur_ns, c.step_ts_ns,
            c.name AS own_name, c.args AS own_args,
            r.args AS record_args,
            a.name AS annotation_name, a.args AS annotation_args,
            o.name AS op_name, o.args AS op_args
        FROM device_calls AS c
        LEFT JOIN host_operations AS r ON r.event_id = c.record_event_id
        LEFT JOIN host_operations AS a ON a.event_id = c.annotation_event_id
        LEFT JOIN host_operations AS o ON o.event_id = c.comm_op_event_id
        UNION ALL
        SELECT
            h.source, h.rank, h.event_id, NULL, NULL, h.ts_ns, h.dur_ns, h.ts_ns,
            NULL, NULL, NULL, h.name, h.args, o.name, o.args
        FROM host_calls AS h
        LEFT JOIN host_operations AS o ON o.event_id = h.comm_op_event_id
    ),

    -- Every place that may name the kind, best first. A wait is no call; `coalesced` says nothing.
    named AS (
        SELECT event_id, 1 AS priority, 'kernel_args' AS coll_source,
            json_extract_string(own_args, '$."Collective name"') AS collective_raw
        FROM calls
        UNION ALL
        SELECT event_id, 2, 'record', json_extract_string(record_args, '$."Collective name"')
        FROM calls
        UNION ALL
        SELECT event_id, 3, 'annotation', substr(annotation_name, strpos(annotation_name, ':') + 1)
        FROM calls
        UNION ALL
        SELECT event_id, 4, 'op', substr(op_name, 7)
        FROM calls
        UNION ALL
        SELECT event_id, 5, 'kernel_name', own_name
        FROM calls
    ),

    spelled AS (
        SELECT event_id, priority, coll_source, collective_raw,
            replace(replace(lower(collective_raw), '_', ''), '-', '') AS plain
        FROM named
        WHERE collective_raw IS NOT NULL AND collective_raw <> 'wait'
    ),

    kinds AS (
        SELECT event_id, priority, coll_source, collective_raw,
            CASE
                WHEN plain LIKE '%reducescatter%' THEN 'reduce_scatter'
                WHEN plain LIKE '%allreduce%' OR plain LIKE '%crossdevicereduce%' THEN 'all_reduce'
                WHEN plain LIKE '%allgather%' THEN 'all_gather'
                WHEN plain LIKE '%alltoall%' OR plain LIKE '%deepep::%' OR plain LIKE '%pplx::%'
                    THEN 'all_to_all'
                WHEN plain LIKE '%broadcast%' THEN 'broadcast'
                WHEN plain LIKE '%sendrecv%' THEN 'send_recv'
                WHEN plain LIKE '%barrier%' THEN 'barrier'
                WHEN coll_source = 'kernel_name' AND plain LIKE 'nccl%reduce%' THEN 'reduce'
                WHEN coll_source = 'kernel_name' THEN 'unknown'
                WHEN plain LIKE '%gather%' THEN 'gather'
                WHEN plain LIKE '%scatter%' THEN 'scatter'
                WHEN plain LIKE '%reduce%' THEN 'reduce'
                WHEN plain LIKE '%send%' THEN 'send'
                WHEN plain LIKE '%recv%' THEN 'recv'
                ELSE 'unknown'
            END AS collective
        FROM spelled
    ),

    best AS (
        SELECT event_id, coll_source, collective_raw, collective
        FROM kinds
        WHERE collective <> 'unknown' OR coll_source = 'kernel_name'
        QUALIFY row_number() OVER (PARTITION BY event_id ORDER BY priority) = 1
    ),

    -- The JSON that states sizes and group (kernel, else record), and the recorded shapes.
    stated AS (
        SELECT
            c.source, c.rank, c.event_id, c.device, c.stream, c.ts_ns, c.dur_ns, c.step_ts_ns,
            coalesce(b.collective, 'unknown') AS collective,
            b.collective_raw,
            coalesce(b.coll_source, 'kernel_name') AS coll_source,
            CASE
                WHEN b.coll_source = 'kernel_args' THEN c.own_args
                WHEN b.coll_source = 'record' THEN c.record_args
            END AS meta,
            c.record_args,
            c.annotation_args, c.op_args,
            c.op_name IN ('c10d::alltoall_base_', 'c10d::_allgather_base_',
                'c10d::_reduce_scatter_base_') AS op_has_output_first
        FROM calls AS c
        LEFT JOIN best AS b ON b.event_id = c.event_id
    ),

    fields AS (
        SELECT
            source, rank, event_id, device, stream, ts_ns, dur_ns, step_ts_ns,
            collective, collective_raw, coll_source,
            coalesce(
                json_extract_string(meta, '$.dtype'),
                CASE WHEN meta IS NULL THEN coalesce(
                    json_extract_string(annotation_args, '$."Input type"[0]'),
                    CASE WHEN op_has_output_first
                        THEN json_extract_string(op_args, '$."Input type"[1]') END)
                END
            ) AS dtype,
            TRY_CAST(json_extract_string(meta, '$."In msg nelems"') AS BIGINT) AS meta_in,
            TRY_CAST(json_extract_string(meta, '$."Out msg nelems"') AS BIGINT) AS meta_out,
            CASE WHEN meta IS NULL THEN coalesce(
                json_extract(annotation_args, '$."Input Dims"[0]'),
                CASE WHEN op_has_output_first THEN json_extract(op_args, '$."Input Dims"[1]') END)
            END AS in_dims,
            CASE WHEN meta IS NULL AND op_has_output_first
                THEN json_extract(op_args, '$."Input Dims"[0]')
            END AS out_dims,
            TRY_CAST(json_extract_string(meta, '$."Group size"') AS BIGINT) AS meta_group_size,
            json_extract_string(meta, '$."Process Group Name"') AS pg_name,
            json_extract_string(meta, '$."Process Group Description"') AS pg_desc,
            json_extract_string(meta, '$."Process Group Ranks"') AS pg_ranks_text,
            TRY_CAST(json_extract_string(record_args, '$."Global rank start"') AS BIGINT) AS rank_start,
            TRY_CAST(json_extract_string(record_args, '$."Global rank stride"') AS BIGINT) AS rank_stride,
            TRY_CAST(coalesce(json_extract_string(meta, '$.Seq'), json_extract_string(meta, '$.seq'))
                AS BIGINT) AS seq,
            TRY_CAST(json_extract_string(meta, '$."Src Rank"') AS BIGINT) AS src_rank,
            TRY_CAST(json_extract_string(meta, '$."Dst Rank"') AS BIGINT) AS dst_rank,
            CASE WHEN coll_source = 'annotation' AND device IS NULL
                THEN TRY_CAST(json_extract_string(op_args, '$."Concrete Inputs"[2]') AS BIGINT)
            END AS concrete_rank,
            json_extract_string(meta, '$."In split size"') AS in_split_text,
            json_extract_string(meta, '$."Out split size"') AS out_split_text
        FROM stated
    ),

    -- Products of shapes: [2, 3] is 6, a list of tensors [[2, 3], [4]] is 10, [] says nothing.
    shapes AS (
        SELECT
            event_id,
            TRY_CAST(in_dims AS BIGINT[]) AS in_flat,
            TRY_CAST(in_dims AS BIGINT[][]) AS in_nested,
            TRY_CAST(out_dims AS BIGINT[]) AS out_flat,
            TRY_CAST(out_dims AS BIGINT[][]) AS out_nested
        FROM fields
    ),

    counts AS (
        SELECT
            event_id,
            CASE
                WHEN list_count(in_flat) > 0 THEN TRY_CAST(list_product(in_flat) AS BIGINT)
                WHEN list_count(in_nested) > 0
                    THEN TRY_CAST(list_sum(list_transform(in_nested, lambda x: list_product(x))) AS BIGINT)
            END AS in_count,
            CASE
                WHEN list_count(out_flat) > 0 THEN TRY_CAST(list_product(out_flat) AS BIGINT)
                WHEN list_count(out_nested) > 0
                    THEN TRY_CAST(list_sum(list_transform(out_nested, lambda x: list_product(x))) AS BIGINT)
            END AS out_count
        FROM shapes
    ),

    widths (dtype, elem_bytes) AS (
        VALUES
            ('float', 4), ('float32', 4), ('int', 4), ('int32', 4), ('unsigned int', 4), ('uint32', 4),
            ('double', 8), ('float64', 8), ('long', 8), ('int64', 8), ('long int', 8), ('uint64', 8),
            ('unsigned long', 8), ('unsigned long int', 8), ('complexfloat', 8), ('complexdouble', 16),
            ('half', 2), ('float16', 2), ('bfloat16', 2), ('short', 2), ('short int', 2), ('int16', 2),
            ('uint16', 2), ('char', 1), ('byte', 1), ('bool', 1), ('int8', 1), ('uint8', 1),
            ('unsigned char', 1), ('signed char', 1), ('float8_e4m3fn', 1), ('float8_e5m2', 1),
            ('float8_e4m3fnuz', 1), ('float8_e5m2fnuz', 1), ('float8_e8m0fnu', 1)
    ),

    -- Groups as the header lists them.
    configs AS (
        SELECT rank, unnest(json_extract(value, '$.pg_config[*]')) AS entry
        FROM metadata
        WHERE key = 'distributedInfo' AND json_valid(value)
    ),

    configured AS (
        SELECT
            rank,
            json_extract_string(entry, '$.pg_name') AS pg_name,
            json_extract_string(entry, '$.pg_desc') AS pg_desc,
            TRY_CAST(json_extract_string(entry, '$.pg_size') AS BIGINT) AS pg_size,
            TRY_CAST(json_extract(entry, '$.ranks') AS BIGINT[]) AS ranks,
            count(*) OVER (PARTITION BY rank) AS groups
        FROM configs
        QUALIFY row_number() OVER (
            PARTITION BY rank, json_extract_string(entry, '$.pg_name')
            ORDER BY TRY_CAST(json_extract_string(entry, '$.pg_size') AS BIGINT) DESC NULLS LAST
        ) = 1
    ),

    -- A gloo call states no group; it is known when the rank has only one.
    grouped AS (
        SELECT
            f.event_id,
            coalesce(f.pg_name, g.pg_name) AS pg_name,
            coalesce(f.pg_desc, g.pg_desc) AS pg_desc,
            coalesce(
                CASE WHEN json_valid(f.pg_ranks_text) AND f.pg_ranks_text <> '[]'
                    THEN TRY_CAST(f.pg_ranks_text::JSON AS BIGINT[]) END,
                g.ranks,
                CASE WHEN f.rank_stride > 0 AND f.meta_group_size BETWEEN 1 AND 10000000
                    THEN range(f.rank_start, f.rank_start + f.rank_stride * f.meta_group_size,
                        f.rank_stride) END
            ) AS pg_ranks,
            coalesce(f.meta_group_size, g.pg_size) AS stated_size
        FROM fields AS f
        LEFT JOIN configured AS g
            ON g.rank = f.rank
            AND (g.pg_name = f.pg_name OR (f.pg_name IS NULL AND f.device IS NULL AND g.groups = 1))
    ),

    sized AS (
        SELECT
            f.source, f.rank, f.event_id, f.device, f.stream, f.ts_ns, f.dur_ns, f.step_ts_ns,
            f.collective, f.collective_raw, f.coll_source, f.dtype, f.seq,
            g.pg_name, g.pg_desc, g.pg_ranks, g.stated_size,
            coalesce(f.meta_in, c.in_count) AS in_elems,
            coalesce(f.meta_out, c.out_count) AS out_elems,
            w.elem_bytes,
            CASE
                WHEN f.collective IN ('broadcast', 'scatter') THEN coalesce(f.src_rank, f.concrete_rank)
                WHEN f.collective IN ('reduce', 'gather') THEN coalesce(f.dst_rank, f.concrete_rank)
            END AS root_rank,
            CASE
                WHEN f.collective = 'send' THEN coalesce(f.dst_rank, f.concrete_rank)
                WHEN f.collective = 'recv' THEN coalesce(f.src_rank, f.concrete_rank)
            END AS peer_rank,
            CASE WHEN json_valid(f.in_split_text) AND f.in_split_text <> '[]'
                THEN TRY_CAST(f.in_split_text::JSON AS BIGINT[]) END AS in_split,
            CASE WHEN json_valid(f.out_split_text) AND f.out_split_text <> '[]'
                THEN TRY_CAST(f.out_split_text::JSON AS BIGINT[]) END AS out_split
        FROM fields AS f
        LEFT JOIN counts AS c ON c.event_id = f.event_id
        LEFT JOIN grouped AS g ON g.event_id = f.event_id
        LEFT JOIN widths AS w ON w.dtype = replace(lower(f.dtype), 'c10::', '')
    ),

    final AS (
        SELECT
            source, rank, event_id, device, stream, ts_ns, dur_ns, step_ts_ns,
            collective, collective_raw, coll_source, dtype, seq,
            pg_name, pg_desc, pg_ranks,
            -- An all-gather says its group by output over input.
            coalesce(
                stated_size,
                CASE WHEN collective = 'all_gather' AND in_elems > 0 AND out_elems % in_elems = 0
                        AND out_elems > in_elems
                    THEN out_elems // in_elems END
            ) AS stated_size,
            in_elems, out_elems,
            in_elems * elem_bytes AS in_bytes,
            out_elems * elem_bytes AS out_bytes,
            root_rank, peer_rank, in_split, out_split
        FROM sized
    )

SELECT
    source, rank, event_id, device, stream, ts_ns, dur_ns, step_ts_ns, collective, collective_raw,
    coll_source, dtype, seq, pg_name, pg_desc, pg_ranks, stated_size, in_elems, out_elems, in_bytes,
    out_bytes, root_rank, peer_rank, in_split, out_split
FROM final
ORDER BY rank, ts_ns, event_id
