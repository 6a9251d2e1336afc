-- @derived  _named_calls
-- @partition rank
-- @summary  Communication events of each rank with their kind, who says it, and what shapes around
--           them say of sizes.
-- @reads    device_events host_events launches comm_args metadata ranks _comm_words _traced_calls
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
-- @column   meta_event_id BIGINT value - | The event of comm_args that states sizes and group.
-- @column   traced_event_id BIGINT value - | The event of _traced_calls.
-- @column   record_start BIGINT value - | First rank of a regular group, as the record around the
--           launch says.
-- @column   record_stride BIGINT value - | Distance of its ranks, likewise.
-- @column   concrete_rank BIGINT value - | The rank in the inputs of an operator of gloo.
-- @column   is_launched BOOLEAN value - | Whether the operator that launched it says shapes.
-- @column   dtype VARCHAR value - | Type of the elements, as the shapes say.
-- @column   in_elems BIGINT value - | Elements of the input, as the shapes say.
-- @column   out_elems BIGINT value - | Elements of the output, as the shapes say.
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
            CASE WHEN r.coll_source IS NULL THEN r.collective_name END AS record_word,
            r.rank_start AS record_start, r.rank_stride AS record_stride
        FROM device_events AS d
        LEFT JOIN launches AS l ON l.event_id = d.event_id
        LEFT JOIN comm_args AS own ON own.event_id = d.event_id
        LEFT JOIN comm_args AS r ON r.event_id = l.record_event_id
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

    -- `coalesced` and the like say nothing; what a kernel's name says is the last resort.
    known AS (
        SELECT word, kind
        FROM _comm_words
        WHERE kind <> 'unknown' AND NOT by_kernel
    ),

    -- The places that may name the kind, best first: the kernel itself, the record around its
    -- launch, and where these do not say it the annotation and the operator there. What NVTX ranges
    -- of NCCL say comes after those two: an all-to-all is a group of sends and receives to NCCL.
    stated AS (
        SELECT
            c.source, c.rank, c.event_id, c.device, c.stream, c.ts_ns, c.dur_ns, c.step_ts_ns,
            c.operation, c.stall_ns, c.record_event_id, c.record_start, c.record_stride,
            c.nvtx_source,
            CASE WHEN c.nvtx_source IS NOT NULL THEN k.kind END AS nvtx_kind,
            CASE WHEN c.nvtx_source IS NOT NULL THEN c.own_word END AS nvtx_word,
            CASE WHEN c.nvtx_source IS NULL AND k.kind IS NOT NULL THEN k.kind ELSE r.kind END AS kind,
            CASE
                WHEN c.nvtx_source IS NULL AND k.kind IS NOT NULL THEN c.own_word
                WHEN r.kind IS NOT NULL THEN c.record_word
            END AS word,
            CASE
                WHEN c.nvtx_source IS NULL AND k.kind IS NOT NULL THEN 'kernel_args'
                WHEN r.kind IS NOT NULL THEN 'record'
            END AS coll_source,
            -- The event that states sizes and group.
            CASE
                WHEN k.kind IS NOT NULL OR c.nvtx_source IS NOT NULL THEN c.event_id
                WHEN r.kind IS NOT NULL THEN c.record_event_id
            END AS meta_event_id,
            n.word AS kernel_word,
            -- The name of an operation of XLA says nothing of it.
            CASE WHEN c.source <> 'xla' OR c.nvtx_source IS NULL THEN n.kind END AS kernel_kind,
            CASE WHEN (k.kind IS NULL OR c.nvtx_source IS NOT NULL) AND r.kind IS NULL
                THEN c.annotation_event_id END AS annotation_event_id,
            CASE WHEN (k.kind IS NULL OR c.nvtx_source IS NOT NULL) AND r.kind IS NULL
                THEN c.comm_op_event_id END AS comm_op_event_id,
            -- Without any of these, the operator that launched it may say what it takes.
            CASE WHEN k.kind IS NULL AND r.kind IS NULL AND c.nvtx_source IS NULL THEN c.op_event_id END
                AS op_event_id
        FROM device_calls AS c
        LEFT JOIN known AS k ON k.word = c.own_word
        LEFT JOIN known AS r ON r.word = c.record_word
        LEFT JOIN _comm_words AS n ON n.word = c.name AND n.by_kernel
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
            c.operation, c.stall_ns, c.record_event_id, c.record_start, c.record_stride,
            c.kind, c.word, c.coll_source, c.meta_event_id,
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
            NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL,
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
            c.operation, c.stall_ns, c.record_event_id, c.record_start, c.record_stride, c.meta_event_id,
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
        LEFT JOIN _traced_calls AS t ON t.event_id = coalesce(c.record_event_id, c.event_id)
        LEFT JOIN known AS e ON e.word = t.collective_name
    ),

    -- What the shapes around a call say of its sizes; without them, those of what launched it.
    shaped AS (
        SELECT
            n.source, n.rank, n.event_id, n.device, n.stream, n.ts_ns, n.dur_ns, n.step_ts_ns,
            n.operation, n.stall_ns, n.collective, n.collective_raw, n.coll_source,
            n.meta_event_id, n.traced_event_id, n.record_start, n.record_stride, n.concrete_rank,
            p.event_id IS NOT NULL AS is_launched,
            coalesce(
                json_extract_string(n.annotation_types, '$[0]'),
                json_extract_string(n.op_types, '$[1]'),
                p.dtype
            ) AS dtype,
            coalesce(
                json_extract(n.annotation_dims, '$[0]'), json_extract(n.op_dims, '$[1]'), p.in_dims
            ) AS in_dims,
            coalesce(
                json_extract(n.op_dims, '$[0]'),
                -- An all-reduce gives what it takes.
                CASE WHEN n.collective = 'all_reduce' THEN p.in_dims ELSE p.out_dims END
            ) AS out_dims
        FROM named AS n
        LEFT JOIN launchers AS p
            ON p.event_id = n.launcher_event_id
            AND n.collective IN ('all_reduce', 'all_gather', 'reduce_scatter')
            AND p.plain LIKE '%::%' || replace(n.collective, '_', '') || '%'
    )

-- Products of shapes: [2, 3] is 6, a list of tensors [[2, 3], [4]] is 10, [] says nothing.
SELECT
    source, rank, event_id, device, stream, ts_ns, dur_ns, step_ts_ns, operation, stall_ns,
    collective, collective_raw, coll_source, meta_event_id, traced_event_id,
    record_start, record_stride,
    CASE WHEN coll_source = 'annotation' AND device IS NULL THEN concrete_rank END AS concrete_rank,
    is_launched, dtype,
    CASE
        WHEN list_count(TRY_CAST(in_dims AS BIGINT[])) > 0
            THEN TRY_CAST(list_product(TRY_CAST(in_dims AS BIGINT[])) AS BIGINT)
        WHEN list_count(TRY_CAST(in_dims AS BIGINT[][])) > 0
            THEN TRY_CAST(list_sum(list_transform(
                TRY_CAST(in_dims AS BIGINT[][]), lambda x: list_product(x)
            )) AS BIGINT)
    END AS in_elems,
    CASE
        WHEN list_count(TRY_CAST(out_dims AS BIGINT[])) > 0
            THEN TRY_CAST(list_product(TRY_CAST(out_dims AS BIGINT[])) AS BIGINT)
        WHEN list_count(TRY_CAST(out_dims AS BIGINT[][])) > 0
            THEN TRY_CAST(list_sum(list_transform(
                TRY_CAST(out_dims AS BIGINT[][]), lambda x: list_product(x)
            )) AS BIGINT)
    END AS out_elems
FROM shaped
