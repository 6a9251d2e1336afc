-- @derived  _named_calls
-- @partition rank
-- @summary  Communication events of each rank with their kind, who says it, and what shapes around
--           them say of sizes.
-- @reads    _call_texts _comm_words _host_calls _stated_calls _traced_calls
-- @check    (SELECT count(*) FROM _stated_calls) + (SELECT count(*) FROM _host_calls) > 0
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
    -- `coalesced` and the like say nothing; what a kernel's name says is the last resort.
    known AS (
        SELECT word, kind
        FROM _comm_words
        WHERE kind <> 'unknown' AND NOT by_kernel
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
            FROM _call_texts
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
        FROM _stated_calls AS c
        LEFT JOIN _call_texts AS a ON a.event_id = c.annotation_event_id
        LEFT JOIN _call_texts AS o ON o.event_id = c.comm_op_event_id
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
        FROM _host_calls AS h
        LEFT JOIN _call_texts AS o ON o.event_id = h.comm_op_event_id
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

-- Products of shapes: [2, 3] is 6, a list of tensors [[2, 3], [4]] is 10. [] says nothing, nor does
-- a shape of which a dimension is no number.
SELECT
    source, rank, event_id, device, stream, ts_ns, dur_ns, step_ts_ns, operation, stall_ns,
    collective, collective_raw, coll_source, meta_event_id, traced_event_id,
    record_start, record_stride,
    CASE WHEN coll_source = 'annotation' AND device IS NULL THEN concrete_rank END AS concrete_rank,
    is_launched, dtype,
    CASE
        WHEN list_count(in_shape) = len(in_shape)
            THEN TRY_CAST(list_product(in_shape) AS BIGINT)
        WHEN list_count(in_shapes) = len(in_shapes)
            AND list_count(flatten(in_shapes)) = len(flatten(in_shapes))
            THEN TRY_CAST(list_sum(list_transform(in_shapes, lambda x: list_product(x))) AS BIGINT)
    END AS in_elems,
    CASE
        WHEN list_count(out_shape) = len(out_shape)
            THEN TRY_CAST(list_product(out_shape) AS BIGINT)
        WHEN list_count(out_shapes) = len(out_shapes)
            AND list_count(flatten(out_shapes)) = len(flatten(out_shapes))
            THEN TRY_CAST(list_sum(list_transform(out_shapes, lambda x: list_product(x))) AS BIGINT)
    END AS out_elems
FROM (
    SELECT
        *,
        TRY_CAST(in_dims AS BIGINT[]) AS in_shape,
        TRY_CAST(in_dims AS BIGINT[][]) AS in_shapes,
        TRY_CAST(out_dims AS BIGINT[]) AS out_shape,
        TRY_CAST(out_dims AS BIGINT[][]) AS out_shapes
    FROM shaped
)
