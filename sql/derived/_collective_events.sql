-- @derived  _collective_events
-- @partition rank
-- @summary  Communication events of each rank with kind, sizes and group as far as the rank itself
--           says.
-- @reads    device_events host_events launches comm_args metadata ranks et_nodes et_links
--           _rank_lists
-- @check    (SELECT count(*) FROM device_events WHERE class = 'comm') > 0 OR (SELECT count(*) FROM
--           host_events WHERE class = 'host_annotation' AND name LIKE 'gloo:%') > 0
--           | nothing communicates
-- @column   source VARCHAR value - | As in collectives.
-- @column   rank BIGINT value - | As in collectives.
-- @column   event_id BIGINT value - | As in collectives.
-- @column   device BIGINT value - | As in collectives.
-- @column   stream BIGINT value - | As in collectives.
-- @column   ts_ns BIGINT value ns | As in collectives.
-- @column   dur_ns BIGINT value ns | As in collectives.
-- @column   step_ts_ns BIGINT value ns | The time that says the step.
-- @column   operation VARCHAR value - | The same operation of the same program (XLA).
-- @column   stall_ns BIGINT value ns | As in collectives.
-- @column   collective VARCHAR value - | As in collectives.
-- @column   collective_raw VARCHAR value - | As in collectives.
-- @column   coll_source VARCHAR value - | As in collectives.
-- @column   dtype VARCHAR value - | As in collectives.
-- @column   seq BIGINT value - | As in collectives.
-- @column   pg_name VARCHAR value - | As in collectives.
-- @column   pg_desc VARCHAR value - | As in collectives.
-- @column   ranks_key BIGINT value - | Which ranks the group has, where the list is whole: that of
--           _rank_lists, or of the run from rank_start on.
-- @column   rank_start BIGINT value - | First rank of a regular group that nothing lists.
-- @column   rank_stride BIGINT value - | Distance of its ranks.
-- @column   stated_size BIGINT value - | Group size as stated.
-- @column   in_elems BIGINT value - | As in collectives.
-- @column   out_elems BIGINT value - | As in collectives.
-- @column   in_bytes BIGINT value bytes | As in collectives.
-- @column   out_bytes BIGINT value bytes | As in collectives.
-- @column   root_rank BIGINT value - | As in collectives.
-- @column   peer_rank BIGINT value - | As in collectives.
-- @column   group_rank BIGINT value - | Own rank in the group as stated, from 0.
-- @column   in_split BIGINT[] value - | As in collectives.
-- @column   out_split BIGINT[] value - | As in collectives.
-- @column   size_source VARCHAR value - | As in collectives.
-- @source   formats_kineto sections 4 and 7; metrics 1.3 and 1.4
WITH
    stepped_devices AS (
        SELECT DISTINCT rank
        FROM metadata
        WHERE key = 'step_marker'
            AND json_valid(value)
            AND json_extract_string(value, '$.marker') = 'Steps'
    ),

    -- Communication on devices, with what the events say of themselves.
    device_calls AS (
        SELECT
            d.source, d.rank, d.event_id, d.device, d.stream, d.ts_ns, d.dur_ns, d.name,
            -- The profiler of XLA may list the steps of a device, on its clock; and it may not say
            -- what launched an operation.
            CASE
                WHEN d.source = 'xla' THEN coalesce(
                    CASE WHEN d.rank NOT IN (SELECT rank FROM stepped_devices) THEN l.launch_ts_ns END,
                    d.ts_ns
                )
                ELSE l.launch_ts_ns
            END AS step_ts_ns,
            -- The same operation of the same program; its number may differ between hosts.
            CASE WHEN d.source = 'xla' AND d.hlo_op IS NOT NULL
                THEN concat_ws('/', regexp_replace(d.hlo_module, '\(\d+\)$', ''), d.hlo_op)
            END AS operation,
            own.stall_ns,
            l.record_event_id, l.annotation_event_id, l.comm_op_event_id, l.op_event_id,
            own.collective_name AS own_word,
            own.coll_source AS nvtx_source,
            r.collective_name AS record_word
        FROM device_events AS d
        LEFT JOIN launches AS l ON l.event_id = d.event_id
        LEFT JOIN comm_args AS own ON own.event_id = d.event_id
        LEFT JOIN comm_args AS r ON r.event_id = l.record_event_id AND r.coll_source IS NULL
        WHERE d.class = 'comm'
    ),

    -- A join with nothing reads nothing: host_events is most of a trace.
    deviceless AS (
        SELECT source, rank
        FROM ranks
        EXCEPT
        SELECT source, rank
        FROM device_events
        WHERE class IN ('comm', 'compute', 'copy', 'set', 'graph')
    ),

    -- On a rank without any device, gloo's own annotations are the calls: the real span on its
    -- thread.
    gloo AS (
        SELECT
            h.source, h.rank, h.event_id, h.ts_ns, h.dur_ns, h.name, h.args,
            TRY_CAST(json_extract_string(h.args, '$."Record function id"') AS BIGINT) AS record_id
        FROM host_events AS h
        INNER JOIN deviceless AS d ON d.source = h.source AND d.rank = h.rank
        WHERE h.class = 'host_annotation' AND h.name LIKE 'gloo:%' AND h.dur_ns IS NOT NULL
    ),

    operators AS (
        SELECT
            o.rank, o.event_id,
            TRY_CAST(json_extract_string(o.args, '$."Record function id"') AS BIGINT) AS record_id
        FROM host_events AS o
        INNER JOIN (SELECT DISTINCT rank FROM gloo) AS g ON g.rank = o.rank
        WHERE o.name LIKE 'c10d::%'
    ),

    host_calls AS (
        SELECT
            h.source, h.rank, h.event_id, h.ts_ns, h.dur_ns, h.name, h.args,
            o.event_id AS comm_op_event_id
        FROM gloo AS h
        LEFT JOIN operators AS o
            ON o.rank = h.rank AND o.record_id > 0 AND h.record_id = o.record_id + 1
        QUALIFY row_number() OVER (PARTITION BY h.event_id ORDER BY o.event_id) = 1
    ),

    -- Calls as the execution trace of the rank has them, by the record of Kineto (gloo: the
    -- annotation).
    traced AS (
        SELECT
            l.event_id, n.collective_name, n.dtype, n.in_elems, n.out_elems, n.in_split, n.out_split,
            n.group_size, n.rank_start, n.rank_stride,
            -- A name alone does not say which ranks are meant.
            CASE WHEN n.rank_stride > 0 THEN n.pg_name END AS pg_name,
            CASE WHEN n.rank_stride > 0 THEN n.pg_desc END AS pg_desc
        FROM et_links AS l
        INNER JOIN et_nodes AS n
            ON n.rank = l.rank AND n.source_id = l.source_id AND n.node_id = l.node_id
        WHERE n.collective_name IS NOT NULL AND n.collective_name <> 'wait'
        QUALIFY row_number() OVER (PARTITION BY l.event_id ORDER BY n.name, n.inputs) = 1
    ),

    -- Names are made words once each, not once for each event.
    communicating AS MATERIALIZED (
        SELECT DISTINCT name
        FROM host_events
        WHERE name LIKE 'nccl:%' OR name LIKE 'c10d::%' OR name LIKE 'gloo:%'
    ),

    -- Every word that may name a kind, once. A wait is no call.
    words AS MATERIALIZED (
        SELECT DISTINCT word, by_kernel
        FROM (
            SELECT collective_name AS word, false AS by_kernel
            FROM comm_args
            UNION ALL
            SELECT collective_name, false
            FROM traced
            UNION ALL
            SELECT name, true
            FROM device_events
            WHERE class = 'comm'
            UNION ALL
            SELECT
                substr(name, strpos(name, ':') + CASE WHEN name LIKE 'c10d::%' THEN 2 ELSE 1 END),
                false
            FROM communicating
        )
        WHERE word IS NOT NULL AND word <> 'wait'
    ),

    spelled AS (
        SELECT word, by_kernel, replace(replace(lower(word), '_', ''), '-', '') AS plain
        FROM words
    ),

    kinds AS MATERIALIZED (
        SELECT word, by_kernel,
            CASE
                WHEN plain LIKE '%reducescatter%' THEN 'reduce_scatter'
                WHEN plain LIKE '%allreduce%' OR plain LIKE '%crossdevicereduce%' THEN 'all_reduce'
                WHEN plain LIKE '%allgather%' THEN 'all_gather'
                -- The exchange of tokens between experts, by the names of its libraries.
                WHEN plain LIKE '%alltoall%' OR plain LIKE '%::ep::%' OR plain LIKE '%deepep::%'
                    OR plain LIKE '%hybridep::%' OR plain LIKE '%pplx::%'
                    OR by_kernel AND (
                        plain LIKE '%a2adispatch%' OR plain LIKE '%a2acombine%'
                        OR plain LIKE '%epdispatch%' OR plain LIKE '%epcombine%'
                    )
                    THEN 'all_to_all'
                WHEN plain LIKE '%broadcast%' THEN 'broadcast'
                WHEN plain LIKE '%sendrecv%' OR plain LIKE '%collectivepermute%' THEN 'send_recv'
                WHEN plain LIKE '%barrier%' THEN 'barrier'
                WHEN by_kernel AND plain LIKE 'nccl%reduce%' THEN 'reduce'
                WHEN by_kernel THEN 'unknown'
                WHEN plain LIKE '%gather%' THEN 'gather'
                WHEN plain LIKE '%scatter%' THEN 'scatter'
                WHEN plain LIKE '%reduce%' THEN 'reduce'
                WHEN plain LIKE '%send%' THEN 'send'
                WHEN plain LIKE '%recv%' THEN 'recv'
                ELSE 'unknown'
            END AS kind
        FROM spelled
    ),

    -- `coalesced` and the like say nothing; what a kernel's name says is the last resort.
    known AS (
        SELECT word, kind
        FROM kinds
        WHERE kind <> 'unknown' AND NOT by_kernel
    ),

    -- The places that may name the kind, best first: the kernel itself, the record around its
    -- launch, and where these do not say it the annotation and the operator there. What NVTX ranges
    -- of NCCL say comes after those two: an all-to-all is a group of sends and receives to NCCL.
    stated AS (
        SELECT
            c.source, c.rank, c.event_id, c.device, c.stream, c.ts_ns, c.dur_ns, c.step_ts_ns,
            c.operation, c.stall_ns, c.record_event_id,
            c.nvtx_source,
            CASE WHEN c.nvtx_source IS NOT NULL THEN v.kind END AS nvtx_kind,
            CASE WHEN c.nvtx_source IS NOT NULL THEN c.own_word END AS nvtx_word,
            coalesce(k.kind, r.kind) AS kind,
            CASE WHEN k.kind IS NOT NULL THEN c.own_word WHEN r.kind IS NOT NULL THEN c.record_word END
                AS word,
            CASE WHEN k.kind IS NOT NULL THEN 'kernel_args' WHEN r.kind IS NOT NULL THEN 'record' END
                AS coll_source,
            -- The event that states sizes and group.
            CASE
                WHEN k.kind IS NOT NULL OR c.nvtx_source IS NOT NULL THEN c.event_id
                WHEN r.kind IS NOT NULL THEN c.record_event_id
            END AS meta_event_id,
            n.word AS kernel_word,
            -- The name of an operation of XLA says nothing of it.
            CASE WHEN c.source <> 'xla' OR c.nvtx_source IS NULL THEN n.kind END AS kernel_kind,
            CASE WHEN k.kind IS NULL AND r.kind IS NULL THEN c.annotation_event_id END
                AS annotation_event_id,
            CASE WHEN k.kind IS NULL AND r.kind IS NULL THEN c.comm_op_event_id END AS comm_op_event_id,
            -- Without any of these, the operator that launched it may say what it takes.
            CASE WHEN k.kind IS NULL AND r.kind IS NULL AND c.nvtx_source IS NULL THEN c.op_event_id END
                AS op_event_id
        FROM device_calls AS c
        LEFT JOIN known AS k ON k.word = c.own_word AND c.nvtx_source IS NULL
        LEFT JOIN known AS v ON v.word = c.own_word AND c.nvtx_source IS NOT NULL
        LEFT JOIN known AS r ON r.word = c.record_word
        LEFT JOIN kinds AS n ON n.word = c.name AND n.by_kernel
    ),

    wanted AS (
        SELECT annotation_event_id AS event_id
        FROM stated
        WHERE annotation_event_id IS NOT NULL
        UNION
        SELECT comm_op_event_id
        FROM stated
        WHERE comm_op_event_id IS NOT NULL
        UNION
        SELECT op_event_id
        FROM stated
        WHERE op_event_id IS NOT NULL
        UNION
        SELECT comm_op_event_id
        FROM host_calls
        WHERE comm_op_event_id IS NOT NULL
    ),

    -- What the annotations and operators around calls say: shapes as JSON, types, a root.
    around AS MATERIALIZED (
        SELECT
            h.event_id, h.name,
            substr(h.name, strpos(h.name, ':') + CASE WHEN h.name LIKE 'c10d::%' THEN 2 ELSE 1 END)
                AS word,
            h.name IN ('c10d::alltoall_base_', 'c10d::_allgather_base_', 'c10d::_reduce_scatter_base_')
                AS has_output_first,
            json_extract(h.args, '$."Input Dims"') AS dims,
            json_extract(h.args, '$."Input type"') AS types,
            TRY_CAST(json_extract_string(h.args, '$."Concrete Inputs"[2]') AS BIGINT) AS concrete_rank
        FROM (
            SELECT event_id, name, CASE WHEN json_valid(args) THEN args END AS args
            FROM host_events
        ) AS h
        INNER JOIN wanted AS w ON w.event_id = h.event_id
    ),

    -- Operators that communicate without c10d and are named after what they do: those of symmetric
    -- memory and of the all-reduces that engines bring along. Their tensors are the inputs with
    -- dimensions.
    tensors AS (
        SELECT
            event_id, name, dims, types,
            list_filter(range(1, len(dims) + 1), lambda i: regexp_matches(dims[i]::VARCHAR, '^\[ *[0-9]'))
                AS places
        FROM (
            SELECT
                event_id, name, TRY_CAST(dims AS JSON[]) AS dims, TRY_CAST(types AS JSON[]) AS types
            FROM around
            WHERE regexp_matches(replace(lower(name), '_', ''), '::.*(allreduce|allgather|reducescatter)')
        )
    ),

    -- The first tensor is what it takes; where a local input is copied into the buffer, the second
    -- is. The last is what it gives, where it is named `out`.
    launchers AS (
        SELECT
            event_id, replace(lower(name), '_', '') AS plain, dims[place] AS in_dims,
            CASE WHEN name LIKE '%\_out' ESCAPE '\' THEN dims[places[len(places)]] END AS out_dims,
            types[place] ->> '$' AS dtype
        FROM (
            SELECT
                event_id, name, dims, types, places,
                CASE WHEN name LIKE '%\_copy%' ESCAPE '\' THEN places[2] ELSE places[1] END AS place
            FROM tensors
        )
        WHERE place IS NOT NULL
    ),

    calls AS (
        SELECT
            c.source, c.rank, c.event_id, c.device, c.stream, c.ts_ns, c.dur_ns, c.step_ts_ns,
            c.operation, c.stall_ns, c.record_event_id, c.kind, c.word, c.coll_source, c.meta_event_id,
            c.nvtx_source, c.nvtx_kind, c.nvtx_word, c.kernel_word, c.kernel_kind, c.op_event_id,
            a.word AS annotation_word, a.dims AS annotation_dims, a.types AS annotation_types,
            o.word AS op_word, o.has_output_first,
            CASE WHEN o.has_output_first THEN o.dims END AS op_dims,
            CASE WHEN o.has_output_first THEN o.types END AS op_types,
            o.concrete_rank
        FROM stated AS c
        LEFT JOIN around AS a ON a.event_id = c.annotation_event_id
        LEFT JOIN around AS o ON o.event_id = c.comm_op_event_id
        UNION ALL
        SELECT
            h.source, h.rank, h.event_id, NULL, NULL, h.ts_ns, h.dur_ns, h.ts_ns,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL, NULL, NULL,
            substr(h.name, strpos(h.name, ':') + 1),
            json_extract(h.args, '$."Input Dims"'), json_extract(h.args, '$."Input type"'),
            o.word, o.has_output_first,
            CASE WHEN o.has_output_first THEN o.dims END,
            CASE WHEN o.has_output_first THEN o.types END,
            o.concrete_rank
        FROM host_calls AS h
        LEFT JOIN around AS o ON o.event_id = h.comm_op_event_id
    ),

    named AS (
        SELECT
            c.source, c.rank, c.event_id, c.device, c.stream, c.ts_ns, c.dur_ns, c.step_ts_ns,
            c.operation, c.stall_ns, c.record_event_id, c.meta_event_id,
            coalesce(c.kind, a.kind, o.kind, c.nvtx_kind, e.kind, c.kernel_kind, 'unknown')
                AS collective,
            CASE
                WHEN c.kind IS NOT NULL THEN c.word
                WHEN a.kind IS NOT NULL THEN c.annotation_word
                WHEN o.kind IS NOT NULL THEN c.op_word
                WHEN c.nvtx_kind IS NOT NULL THEN c.nvtx_word
                WHEN e.kind IS NOT NULL THEN t.collective_name
                ELSE c.kernel_word
            END AS collective_raw,
            CASE
                WHEN c.kind IS NOT NULL THEN c.coll_source
                WHEN c.nvtx_source IS NOT NULL THEN c.nvtx_source
                WHEN a.kind IS NOT NULL AND c.source = 'nsys' THEN 'nvtx_range'
                WHEN a.kind IS NOT NULL THEN 'annotation'
                WHEN o.kind IS NOT NULL THEN 'op'
                WHEN e.kind IS NOT NULL THEN 'et'
                ELSE 'kernel_name'
            END AS coll_source,
            -- Where both name a kind and not the same one, the execution trace is of another call.
            CASE
                WHEN e.kind = coalesce(c.kind, a.kind, o.kind, c.nvtx_kind, e.kind) THEN t.event_id
            END AS traced_event_id,
            -- Without events of communication, the recorded shapes.
            c.annotation_dims, c.annotation_types, c.op_dims, c.op_types, c.concrete_rank,
            CASE WHEN a.kind IS NULL AND o.kind IS NULL AND e.kind IS NULL THEN c.op_event_id END
                AS launcher_event_id
        FROM calls AS c
        LEFT JOIN known AS a ON a.word = c.annotation_word
        LEFT JOIN known AS o ON o.word = c.op_word
        LEFT JOIN traced AS t ON t.event_id = coalesce(c.record_event_id, c.event_id)
        LEFT JOIN known AS e ON e.word = t.collective_name
    ),

    fields AS (
        SELECT
            n.source, n.rank, n.event_id, n.device, n.stream, n.ts_ns, n.dur_ns, n.step_ts_ns,
            n.operation, n.stall_ns, n.collective, n.collective_raw, n.coll_source,
            t.dtype AS traced_dtype,
            t.in_elems AS traced_in,
            t.out_elems AS traced_out,
            CASE WHEN t.in_split <> '[]' THEN t.in_split END AS traced_in_split,
            CASE WHEN t.out_split <> '[]' THEN t.out_split END AS traced_out_split,
            coalesce(
                m.dtype,
                json_extract_string(n.annotation_types, '$[0]'),
                json_extract_string(n.op_types, '$[1]'),
                p.dtype
            ) AS dtype,
            p.event_id IS NOT NULL AS is_launched,
            m.in_elems AS meta_in,
            m.out_elems AS meta_out,
            m.in_bytes AS meta_in_bytes,
            m.out_bytes AS meta_out_bytes,
            coalesce(
                json_extract(n.annotation_dims, '$[0]'), json_extract(n.op_dims, '$[1]'), p.in_dims
            ) AS in_dims,
            coalesce(
                json_extract(n.op_dims, '$[0]'),
                -- An all-reduce gives what it takes.
                CASE WHEN n.collective = 'all_reduce' THEN p.in_dims ELSE p.out_dims END
            ) AS out_dims,
            CASE WHEN coalesce(m.group_size, g.group_size) BETWEEN 1 AND 10000000
                THEN coalesce(m.group_size, g.group_size) END AS meta_group_size,
            coalesce(m.pg_name, g.pg_name) AS pg_name,
            coalesce(m.pg_desc, g.pg_desc) AS pg_desc,
            x.ranks_key,
            coalesce(r.rank_start, m.rank_start, g.rank_start) AS rank_start,
            coalesce(r.rank_stride, m.rank_stride, g.rank_stride) AS rank_stride,
            g.group_size IS NOT NULL AS group_is_traced,
            m.seq,
            m.group_rank,
            m.src_rank,
            m.dst_rank,
            CASE WHEN n.coll_source = 'annotation' AND n.device IS NULL THEN n.concrete_rank END
                AS concrete_rank,
            m.in_split AS in_split_text,
            m.out_split AS out_split_text
        FROM named AS n
        LEFT JOIN comm_args AS m ON m.event_id = n.meta_event_id
        LEFT JOIN comm_args AS r ON r.event_id = n.record_event_id
        LEFT JOIN _rank_lists AS x ON x.stated = m.pg_ranks AND m.pg_ranks <> '[]'
        LEFT JOIN launchers AS p
            ON p.event_id = n.launcher_event_id
            AND n.collective IN ('all_reduce', 'all_gather', 'reduce_scatter')
            AND p.plain LIKE '%::%' || replace(n.collective, '_', '') || '%'
        LEFT JOIN traced AS t ON t.event_id = n.traced_event_id
        -- A group is of one source as a whole.
        LEFT JOIN traced AS g
            ON g.event_id = n.traced_event_id
            AND m.group_size IS NULL AND m.pg_name IS NULL AND m.rank_start IS NULL
            AND r.rank_start IS NULL
    ),

    -- Products of shapes: [2, 3] is 6, a list of tensors [[2, 3], [4]] is 10, [] says nothing.
    counted AS (
        SELECT
            source, rank, event_id, device, stream, ts_ns, dur_ns, step_ts_ns, operation, stall_ns,
            collective, collective_raw, coll_source, dtype, traced_dtype, is_launched,
            meta_in, traced_in, meta_out, traced_out, meta_in_bytes, meta_out_bytes,
            in_split_text, traced_in_split, out_split_text, traced_out_split,
            CASE
                WHEN list_count(TRY_CAST(in_dims AS BIGINT[])) > 0
                    THEN TRY_CAST(list_product(TRY_CAST(in_dims AS BIGINT[])) AS BIGINT)
                WHEN list_count(TRY_CAST(in_dims AS BIGINT[][])) > 0
                    THEN TRY_CAST(list_sum(list_transform(
                        TRY_CAST(in_dims AS BIGINT[][]), lambda x: list_product(x)
                    )) AS BIGINT)
            END AS in_count,
            CASE
                WHEN list_count(TRY_CAST(out_dims AS BIGINT[])) > 0
                    THEN TRY_CAST(list_product(TRY_CAST(out_dims AS BIGINT[])) AS BIGINT)
                WHEN list_count(TRY_CAST(out_dims AS BIGINT[][])) > 0
                    THEN TRY_CAST(list_sum(list_transform(
                        TRY_CAST(out_dims AS BIGINT[][]), lambda x: list_product(x)
                    )) AS BIGINT)
            END AS out_count,
            meta_group_size, pg_name, pg_desc, ranks_key, group_is_traced,
            -- A regular group is known as a whole with its size.
            CASE WHEN rank_stride BETWEEN 1 AND 10000000 AND rank_start BETWEEN 0 AND 10000000
                    AND meta_group_size IS NOT NULL
                THEN rank_start END AS rank_start,
            rank_stride, seq, group_rank, src_rank, dst_rank, concrete_rank
        FROM fields
    ),

    -- What the rank's own trace says counts first. Its empty splits are even, and no gap.
    completed AS (
        SELECT
            source, rank, event_id, device, stream, ts_ns, dur_ns, step_ts_ns, operation, stall_ns,
            collective, collective_raw, coll_source, meta_in_bytes, meta_out_bytes,
            coalesce(dtype, traced_dtype) AS dtype,
            coalesce(meta_in, in_count, traced_in) AS in_elems,
            coalesce(meta_out, out_count, traced_out) AS out_elems,
            CASE WHEN json_valid(in_split_text) THEN in_split_text ELSE traced_in_split END
                AS in_split_text,
            CASE WHEN json_valid(out_split_text) THEN out_split_text ELSE traced_out_split END
                AS out_split_text,
            CASE
                WHEN group_is_traced
                    OR (dtype IS NULL AND traced_dtype IS NOT NULL)
                    OR (coalesce(meta_in, in_count) IS NULL AND traced_in IS NOT NULL)
                    OR (coalesce(meta_out, out_count) IS NULL AND traced_out IS NOT NULL)
                    OR (traced_in_split IS NOT NULL AND coalesce(NOT json_valid(in_split_text), true))
                    OR (traced_out_split IS NOT NULL AND coalesce(NOT json_valid(out_split_text), true))
                    THEN 'et'
                WHEN is_launched AND coalesce(in_count, out_count) IS NOT NULL THEN 'op'
            END AS size_source,
            meta_group_size, pg_name, pg_desc, ranks_key, rank_start, rank_stride,
            seq, group_rank, src_rank, dst_rank, concrete_rank
        FROM counted
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
            c.rank, c.pg_name, c.pg_desc, c.pg_size, x.ranks_key,
            count(*) OVER (PARTITION BY c.rank) AS groups
        FROM (
            SELECT
                rank,
                json_extract_string(entry, '$.pg_name') AS pg_name,
                json_extract_string(entry, '$.pg_desc') AS pg_desc,
                TRY_CAST(json_extract_string(entry, '$.pg_size') AS BIGINT) AS pg_size,
                json_extract(entry, '$.ranks')::VARCHAR AS stated
            FROM configs
        ) AS c
        LEFT JOIN _rank_lists AS x ON x.stated = c.stated
        QUALIFY row_number() OVER (
            PARTITION BY c.rank, c.pg_name ORDER BY c.pg_size DESC NULLS LAST
        ) = 1
    ),

    -- A gloo call states no group; it is known when the rank has only one.
    grouped AS (
        SELECT
            f.source, f.rank, f.event_id, f.device, f.stream, f.ts_ns, f.dur_ns, f.step_ts_ns,
            f.operation, f.stall_ns, f.collective, f.collective_raw, f.coll_source, f.dtype, f.seq,
            coalesce(f.pg_name, o.pg_name) AS pg_name,
            coalesce(f.pg_desc, g.pg_desc, o.pg_desc) AS pg_desc,
            coalesce(f.ranks_key, g.ranks_key, o.ranks_key) AS listed_key,
            f.rank_start, f.rank_stride,
            coalesce(f.meta_group_size, g.pg_size, o.pg_size) AS stated_size,
            -- More elements than 2^40, or fewer than none, are no call's: such a number is unknown.
            CASE WHEN f.in_elems BETWEEN 0 AND 1099511627776 THEN f.in_elems END AS in_elems,
            CASE WHEN f.out_elems BETWEEN 0 AND 1099511627776 THEN f.out_elems END AS out_elems,
            f.meta_in_bytes, f.meta_out_bytes,
            f.src_rank, f.dst_rank, f.concrete_rank, f.group_rank,
            f.in_split_text, f.out_split_text, f.size_source
        FROM completed AS f
        LEFT JOIN configured AS g ON g.rank = f.rank AND g.pg_name = f.pg_name
        LEFT JOIN configured AS o
            ON o.rank = f.rank AND o.groups = 1 AND f.pg_name IS NULL AND f.device IS NULL
    ),

    sized AS (
        SELECT
            f.source, f.rank, f.event_id, f.device, f.stream, f.ts_ns, f.dur_ns, f.step_ts_ns,
            f.operation, f.stall_ns, f.collective, f.collective_raw, f.coll_source, f.dtype, f.seq,
            f.pg_name, f.pg_desc, f.stated_size, f.listed_key,
            CASE WHEN f.listed_key IS NULL THEN f.rank_start END AS rank_start,
            CASE WHEN f.listed_key IS NULL AND f.rank_start IS NOT NULL THEN f.rank_stride END
                AS rank_stride,
            f.in_elems,
            f.out_elems,
            CASE WHEN f.meta_in_bytes BETWEEN 0 AND 17592186044416 THEN f.meta_in_bytes
                ELSE f.in_elems * w.elem_bytes END AS in_bytes,
            CASE WHEN f.meta_out_bytes BETWEEN 0 AND 17592186044416 THEN f.meta_out_bytes
                ELSE f.out_elems * w.elem_bytes END AS out_bytes,
            CASE
                WHEN f.collective IN ('broadcast', 'scatter') THEN coalesce(f.src_rank, f.concrete_rank)
                WHEN f.collective IN ('reduce', 'gather') THEN coalesce(f.dst_rank, f.concrete_rank)
            END AS root_rank,
            CASE
                WHEN f.collective IN ('send', 'send_recv') THEN coalesce(f.dst_rank, f.concrete_rank)
                WHEN f.collective = 'recv' THEN coalesce(f.src_rank, f.concrete_rank)
            END AS peer_rank,
            f.group_rank,
            CASE WHEN json_valid(f.in_split_text) AND f.in_split_text <> '[]'
                THEN TRY_CAST(f.in_split_text::JSON AS BIGINT[]) END AS in_split,
            CASE WHEN json_valid(f.out_split_text) AND f.out_split_text <> '[]'
                THEN TRY_CAST(f.out_split_text::JSON AS BIGINT[]) END AS out_split,
            f.size_source
        FROM grouped AS f
        LEFT JOIN widths AS w ON w.dtype = replace(lower(f.dtype), 'c10::', '')
    ),

    lists AS (
        SELECT ranks_key, any_value(ranks) AS ranks
        FROM _rank_lists
        GROUP BY ranks_key
    )

SELECT
    c.source, c.rank, c.event_id, c.device, c.stream, c.ts_ns, c.dur_ns, c.step_ts_ns,
    c.operation, c.stall_ns, c.collective, c.collective_raw, c.coll_source, c.dtype, c.seq,
    c.pg_name, c.pg_desc,
    -- What a run of ranks is known by is no list's key: that is of a JSON text.
    CASE
        WHEN c.rank_start IS NOT NULL THEN CAST(
            md5_number_lower(concat_ws(' ', c.rank_start, c.rank_stride, c.stated_size)) >> 1 AS BIGINT
        )
        ELSE c.listed_key
    END AS ranks_key,
    c.rank_start, c.rank_stride,
    -- An all-gather says its group by output over input.
    coalesce(
        c.stated_size,
        CASE WHEN c.collective = 'all_gather' AND c.in_elems > 0 AND c.out_elems % c.in_elems = 0
                AND c.out_elems > c.in_elems
            THEN c.out_elems // c.in_elems END
    ) AS stated_size,
    c.in_elems, c.out_elems,
    c.in_bytes, c.out_bytes,
    c.root_rank,
    -- The pairs of XLA name ranks of the job, others name places in the group.
    CASE
        WHEN c.source = 'xla' AND c.rank_start IS NOT NULL
            THEN nullif(list_position(
                range(c.rank_start, c.rank_start + c.rank_stride * c.stated_size, c.rank_stride),
                c.peer_rank
            ), 0) - 1
        WHEN c.source = 'xla' AND l.ranks IS NOT NULL
            THEN nullif(list_position(l.ranks, c.peer_rank), 0) - 1
        ELSE c.peer_rank
    END AS peer_rank,
    c.group_rank, c.in_split, c.out_split, c.size_source
FROM sized AS c
LEFT JOIN lists AS l
    ON l.ranks_key = c.listed_key AND c.source = 'xla' AND c.peer_rank IS NOT NULL
ORDER BY c.rank, c.ts_ns, c.event_id
