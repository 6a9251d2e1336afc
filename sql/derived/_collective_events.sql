-- @derived  _collective_events
-- @partition rank
-- @summary  Communication events of each rank with kind, sizes and group as far as the rank itself
--           says.
-- @reads    device_events host_events launches comm_args metadata et_nodes et_links
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
-- @column   pg_ranks BIGINT[] value - | Ranks of the group, where the list is whole.
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

    -- On a rank without any device, gloo's own annotations are the calls: the real span on its
    -- thread.
    gloo AS (
        SELECT
            h.source, h.rank, h.event_id, h.ts_ns, h.dur_ns, h.name, h.args,
            TRY_CAST(json_extract_string(h.args, '$."Record function id"') AS BIGINT) AS record_id
        FROM host_events AS h
        WHERE h.class = 'host_annotation'
            AND h.name LIKE 'gloo:%'
            AND h.dur_ns IS NOT NULL
            AND NOT EXISTS (
                SELECT 1 FROM device_events AS d
                WHERE d.rank = h.rank
                    AND d.source = h.source
                    AND d.class IN ('comm', 'compute', 'copy', 'set', 'graph')
            )
    ),

    operators AS (
        SELECT
            o.rank, o.event_id,
            TRY_CAST(json_extract_string(o.args, '$."Record function id"') AS BIGINT) AS record_id
        FROM host_events AS o
        WHERE o.name LIKE 'c10d::%' AND o.rank IN (SELECT rank FROM gloo)
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
            FROM device_calls
            UNION ALL
            SELECT
                substr(name, strpos(name, ':') + CASE WHEN name LIKE 'c10d::%' THEN 2 ELSE 1 END),
                false
            FROM (
                SELECT DISTINCT name
                FROM host_events
                WHERE name LIKE 'nccl:%' OR name LIKE 'c10d::%' OR name LIKE 'gloo:%'
            )
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

    around AS (
        SELECT
            h.event_id,
            substr(h.name, strpos(h.name, ':') + CASE WHEN h.name LIKE 'c10d::%' THEN 2 ELSE 1 END)
                AS word,
            h.name,
            h.args
        FROM host_events AS h
        INNER JOIN wanted AS w ON w.event_id = h.event_id
    ),

    calls AS (
        SELECT
            c.source, c.rank, c.event_id, c.device, c.stream, c.ts_ns, c.dur_ns, c.step_ts_ns,
            c.operation, c.stall_ns, c.record_event_id, c.kind, c.word, c.coll_source, c.meta_event_id,
            c.nvtx_source, c.nvtx_kind, c.nvtx_word, c.kernel_word, c.kernel_kind,
            a.word AS annotation_word, a.args AS annotation_args,
            o.word AS op_word, o.name AS op_name, o.args AS op_args,
            p.name AS launcher_name, p.args AS launcher_args
        FROM stated AS c
        LEFT JOIN around AS a ON a.event_id = c.annotation_event_id
        LEFT JOIN around AS o ON o.event_id = c.comm_op_event_id
        LEFT JOIN around AS p ON p.event_id = c.op_event_id
        UNION ALL
        SELECT
            h.source, h.rank, h.event_id, NULL, NULL, h.ts_ns, h.dur_ns, h.ts_ns,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL, NULL,
            substr(h.name, strpos(h.name, ':') + 1), h.args,
            o.word, o.name, o.args, NULL, NULL
        FROM host_calls AS h
        LEFT JOIN around AS o ON o.event_id = h.comm_op_event_id
    ),

    named AS MATERIALIZED (
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
            -- Without such an event, the recorded shapes.
            CASE WHEN c.kind IS NULL THEN c.annotation_args END AS annotation_args,
            CASE WHEN c.kind IS NULL THEN c.op_args END AS op_args,
            CASE WHEN a.kind IS NULL AND o.kind IS NULL AND e.kind IS NULL THEN c.launcher_name END
                AS launcher_name,
            c.launcher_args,
            c.op_name IN ('c10d::alltoall_base_', 'c10d::_allgather_base_',
                'c10d::_reduce_scatter_base_') AS op_has_output_first
        FROM calls AS c
        LEFT JOIN known AS a ON a.word = c.annotation_word
        LEFT JOIN known AS o ON o.word = c.op_word
        LEFT JOIN traced AS t ON t.event_id = coalesce(c.record_event_id, c.event_id)
        LEFT JOIN known AS e ON e.word = t.collective_name
    ),

    -- Operators that communicate without c10d and are named after what they do: those of symmetric
    -- memory and of the all-reduces that engines bring along. Their tensors are the inputs with
    -- dimensions.
    launchers AS (
        SELECT
            event_id, collective, launcher_name,
            TRY_CAST(json_extract(launcher_args, '$."Input Dims"') AS JSON[]) AS dims,
            TRY_CAST(json_extract(launcher_args, '$."Input type"') AS JSON[]) AS types
        FROM named
        WHERE json_valid(launcher_args)
            AND collective IN ('all_reduce', 'all_gather', 'reduce_scatter')
            AND replace(lower(launcher_name), '_', '') LIKE '%::%' || replace(collective, '_', '') || '%'
    ),

    tensors AS (
        SELECT
            event_id, collective, launcher_name, dims, types,
            list_filter(range(1, len(dims) + 1), lambda i: regexp_matches(dims[i]::VARCHAR, '^\[ *[0-9]'))
                AS places
        FROM launchers
    ),

    -- The first tensor is what it takes; where a local input is copied into the buffer, the second
    -- is.
    inputs AS (
        SELECT
            event_id, collective, launcher_name, dims, types, places,
            CASE WHEN launcher_name LIKE '%\_copy%' ESCAPE '\' THEN places[2] ELSE places[1] END AS place
        FROM tensors
    ),

    -- An all-reduce gives what it takes; others say it in their last argument, where it is named
    -- `out`.
    launched AS (
        SELECT
            event_id,
            dims[place] AS in_dims,
            CASE
                WHEN collective = 'all_reduce' THEN dims[place]
                WHEN launcher_name LIKE '%\_out' ESCAPE '\' THEN dims[places[len(places)]]
            END AS out_dims,
            types[place] ->> '$' AS dtype
        FROM inputs
        WHERE place IS NOT NULL
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
                json_extract_string(n.annotation_args, '$."Input type"[0]'),
                CASE WHEN n.op_has_output_first
                    THEN json_extract_string(n.op_args, '$."Input type"[1]') END,
                p.dtype
            ) AS dtype,
            p.event_id IS NOT NULL AS is_launched,
            m.in_elems AS meta_in,
            m.out_elems AS meta_out,
            m.in_bytes AS meta_in_bytes,
            m.out_bytes AS meta_out_bytes,
            coalesce(
                json_extract(n.annotation_args, '$."Input Dims"[0]'),
                CASE WHEN n.op_has_output_first
                    THEN json_extract(n.op_args, '$."Input Dims"[1]') END,
                p.in_dims
            ) AS in_dims,
            coalesce(
                CASE WHEN n.op_has_output_first THEN json_extract(n.op_args, '$."Input Dims"[0]') END,
                p.out_dims
            ) AS out_dims,
            CASE WHEN coalesce(m.group_size, g.group_size) BETWEEN 1 AND 10000000
                THEN coalesce(m.group_size, g.group_size) END AS meta_group_size,
            coalesce(m.pg_name, g.pg_name) AS pg_name,
            coalesce(m.pg_desc, g.pg_desc) AS pg_desc,
            m.pg_ranks AS pg_ranks_text,
            coalesce(r.rank_start, m.rank_start, g.rank_start) AS rank_start,
            coalesce(r.rank_stride, m.rank_stride, g.rank_stride) AS rank_stride,
            g.group_size IS NOT NULL AS group_is_traced,
            m.seq,
            m.group_rank,
            m.src_rank,
            m.dst_rank,
            CASE WHEN n.coll_source = 'annotation' AND n.device IS NULL
                THEN TRY_CAST(json_extract_string(n.op_args, '$."Concrete Inputs"[2]') AS BIGINT)
            END AS concrete_rank,
            m.in_split AS in_split_text,
            m.out_split AS out_split_text
        FROM named AS n
        LEFT JOIN comm_args AS m ON m.event_id = n.meta_event_id
        LEFT JOIN comm_args AS r ON r.event_id = n.record_event_id
        LEFT JOIN launched AS p ON p.event_id = n.event_id
        LEFT JOIN traced AS t ON t.event_id = n.traced_event_id
        -- A group is of one source as a whole.
        LEFT JOIN traced AS g
            ON g.event_id = n.traced_event_id
            AND m.group_size IS NULL AND m.pg_name IS NULL AND m.rank_start IS NULL
            AND r.rank_start IS NULL
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
        WHERE in_dims IS NOT NULL OR out_dims IS NOT NULL
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

    -- What the rank's own trace says counts first. Its empty splits are even, and no gap.
    completed AS (
        SELECT
            f.event_id,
            coalesce(f.dtype, f.traced_dtype) AS dtype,
            coalesce(f.meta_in, c.in_count, f.traced_in) AS in_elems,
            coalesce(f.meta_out, c.out_count, f.traced_out) AS out_elems,
            CASE WHEN json_valid(f.in_split_text) THEN f.in_split_text ELSE f.traced_in_split END
                AS in_split_text,
            CASE WHEN json_valid(f.out_split_text) THEN f.out_split_text ELSE f.traced_out_split END
                AS out_split_text,
            CASE
                WHEN f.group_is_traced
                    OR (f.dtype IS NULL AND f.traced_dtype IS NOT NULL)
                    OR (coalesce(f.meta_in, c.in_count) IS NULL AND f.traced_in IS NOT NULL)
                    OR (coalesce(f.meta_out, c.out_count) IS NULL AND f.traced_out IS NOT NULL)
                    OR (f.traced_in_split IS NOT NULL
                        AND coalesce(NOT json_valid(f.in_split_text), true))
                    OR (f.traced_out_split IS NOT NULL
                        AND coalesce(NOT json_valid(f.out_split_text), true))
                    THEN 'et'
                WHEN f.is_launched AND coalesce(c.in_count, c.out_count) IS NOT NULL THEN 'op'
            END AS size_source
        FROM fields AS f
        LEFT JOIN counts AS c ON c.event_id = f.event_id
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
                CASE WHEN f.rank_stride BETWEEN 1 AND 10000000 AND f.rank_start BETWEEN 0 AND 10000000
                    THEN range(f.rank_start, f.rank_start + f.rank_stride * f.meta_group_size,
                        f.rank_stride) END
            ) AS pg_ranks,
            coalesce(f.meta_group_size, g.pg_size) AS stated_size
        FROM fields AS f
        LEFT JOIN configured AS g
            ON g.rank = f.rank
            AND (g.pg_name = f.pg_name OR (f.pg_name IS NULL AND f.device IS NULL AND g.groups = 1))
    ),

    -- More elements than 2^40, or fewer than none, are no call's: such a number is unknown.
    plausible AS (
        SELECT
            event_id, dtype, in_split_text, out_split_text, size_source,
            CASE WHEN in_elems BETWEEN 0 AND 1099511627776 THEN in_elems END AS in_elems,
            CASE WHEN out_elems BETWEEN 0 AND 1099511627776 THEN out_elems END AS out_elems
        FROM completed
    ),

    sized AS (
        SELECT
            f.source, f.rank, f.event_id, f.device, f.stream, f.ts_ns, f.dur_ns, f.step_ts_ns,
            f.operation, f.stall_ns, f.collective, f.collective_raw, f.coll_source, c.dtype, f.seq,
            g.pg_name, g.pg_desc, g.pg_ranks, g.stated_size,
            c.in_elems,
            c.out_elems,
            CASE WHEN f.meta_in_bytes BETWEEN 0 AND 17592186044416 THEN f.meta_in_bytes
                ELSE c.in_elems * w.elem_bytes END AS in_bytes,
            CASE WHEN f.meta_out_bytes BETWEEN 0 AND 17592186044416 THEN f.meta_out_bytes
                ELSE c.out_elems * w.elem_bytes END AS out_bytes,
            CASE
                WHEN f.collective IN ('broadcast', 'scatter') THEN coalesce(f.src_rank, f.concrete_rank)
                WHEN f.collective IN ('reduce', 'gather') THEN coalesce(f.dst_rank, f.concrete_rank)
            END AS root_rank,
            CASE
                WHEN f.collective IN ('send', 'send_recv') THEN coalesce(f.dst_rank, f.concrete_rank)
                WHEN f.collective = 'recv' THEN coalesce(f.src_rank, f.concrete_rank)
            END AS peer_rank,
            f.group_rank,
            CASE WHEN json_valid(c.in_split_text) AND c.in_split_text <> '[]'
                THEN TRY_CAST(c.in_split_text::JSON AS BIGINT[]) END AS in_split,
            CASE WHEN json_valid(c.out_split_text) AND c.out_split_text <> '[]'
                THEN TRY_CAST(c.out_split_text::JSON AS BIGINT[]) END AS out_split,
            c.size_source
        FROM fields AS f
        INNER JOIN plausible AS c ON c.event_id = f.event_id
        LEFT JOIN grouped AS g ON g.event_id = f.event_id
        LEFT JOIN widths AS w ON w.dtype = replace(lower(c.dtype), 'c10::', '')
    )

SELECT
    source, rank, event_id, device, stream, ts_ns, dur_ns, step_ts_ns,
    operation, stall_ns, collective, collective_raw, coll_source, dtype, seq,
    pg_name, pg_desc, pg_ranks,
    -- An all-gather says its group by output over input.
    coalesce(
        stated_size,
        CASE WHEN collective = 'all_gather' AND in_elems > 0 AND out_elems % in_elems = 0
                AND out_elems > in_elems
            THEN out_elems // in_elems END
    ) AS stated_size,
    in_elems, out_elems,
    in_bytes, out_bytes,
    root_rank,
    -- The pairs of XLA name ranks of the job, others name places in the group.
    CASE WHEN source = 'xla' AND pg_ranks IS NOT NULL
        THEN nullif(list_position(pg_ranks, peer_rank), 0) - 1
        ELSE peer_rank END AS peer_rank,
    group_rank, in_split, out_split, size_source
FROM sized
ORDER BY rank, ts_ns, event_id
