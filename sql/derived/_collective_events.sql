-- @derived  _collective_events
-- @partition rank
-- @summary  Communication events of each rank with kind, sizes and group as far as the rank itself
--           says.
-- @requires _named_calls
-- @reads    comm_args metadata _coalesced_calls _rank_lists _traced_calls
-- @column   source VARCHAR value - | As in collectives.
-- @column   rank BIGINT value - | As in collectives.
-- @column   event_id BIGINT value - | As in collectives.
-- @column   device BIGINT value - | As in collectives.
-- @column   stream BIGINT value - | As in collectives.
-- @column   ts_ns BIGINT value ns | As in collectives.
-- @column   dur_ns BIGINT value ns | As in collectives.
-- @column   step_ts_ns BIGINT value ns | The time that says the step.
-- @column   operation VARCHAR value - | The same operation of the same program (XLA); of a send or
--           receive with one peer, the pair of places in the group.
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
    -- As wide as it is, a join with all of comm_args would take twice the memory.
    stated AS (
        SELECT
            event_id, dtype, in_elems, out_elems, in_bytes, out_bytes, group_size, pg_name, pg_desc,
            pg_ranks, rank_start, rank_stride, seq, group_rank, src_rank, dst_rank, in_split, out_split
        FROM comm_args
        WHERE event_id IN (SELECT meta_event_id FROM _named_calls)
        UNION ALL
        SELECT
            event_id, dtype, in_elems, out_elems, NULL, NULL, group_size, pg_name, pg_desc,
            pg_ranks, rank_start, rank_stride, NULL, NULL, src_rank, dst_rank, in_split, out_split
        FROM _coalesced_calls
    ),

    fields AS (
        SELECT
            n.source, n.rank, n.event_id, n.device, n.stream, n.ts_ns, n.dur_ns, n.step_ts_ns,
            n.operation, n.stall_ns, n.collective, n.collective_raw, n.coll_source,
            n.is_launched, n.in_elems AS shape_in, n.out_elems AS shape_out, n.concrete_rank,
            coalesce(m.dtype, n.dtype) AS dtype,
            t.dtype AS traced_dtype,
            t.in_elems AS traced_in,
            t.out_elems AS traced_out,
            CASE WHEN t.in_split <> '[]' THEN t.in_split END AS traced_in_split,
            CASE WHEN t.out_split <> '[]' THEN t.out_split END AS traced_out_split,
            m.in_elems AS meta_in,
            m.out_elems AS meta_out,
            m.in_bytes AS meta_in_bytes,
            m.out_bytes AS meta_out_bytes,
            CASE WHEN coalesce(m.group_size, g.group_size) BETWEEN 1 AND 10000000
                THEN coalesce(m.group_size, g.group_size) END AS meta_group_size,
            coalesce(m.pg_name, g.pg_name) AS pg_name,
            coalesce(m.pg_desc, g.pg_desc) AS pg_desc,
            x.ranks_key,
            coalesce(n.record_start, m.rank_start, g.rank_start) AS first_rank,
            coalesce(n.record_stride, m.rank_stride, g.rank_stride) AS rank_stride,
            g.group_size IS NOT NULL AS group_is_traced,
            m.seq,
            m.group_rank,
            m.src_rank,
            m.dst_rank,
            m.in_split AS in_split_text,
            m.out_split AS out_split_text
        FROM _named_calls AS n
        LEFT JOIN stated AS m ON m.event_id = n.meta_event_id
        LEFT JOIN _rank_lists AS x ON x.stated = m.pg_ranks AND m.pg_ranks <> '[]'
        LEFT JOIN _traced_calls AS t ON t.event_id = n.traced_event_id
        -- A group is of one source as a whole.
        LEFT JOIN _traced_calls AS g
            ON g.event_id = n.traced_event_id
            AND m.group_size IS NULL AND m.pg_name IS NULL AND m.rank_start IS NULL
            AND n.record_start IS NULL
    ),

    -- What the rank's own trace says counts first. Its empty splits are even, and no gap.
    completed AS (
        SELECT
            source, rank, event_id, device, stream, ts_ns, dur_ns, step_ts_ns, operation, stall_ns,
            collective, collective_raw, coll_source, meta_in_bytes, meta_out_bytes,
            coalesce(dtype, traced_dtype) AS dtype,
            coalesce(meta_in, shape_in, traced_in) AS in_elems,
            coalesce(meta_out, shape_out, traced_out) AS out_elems,
            CASE WHEN json_valid(in_split_text) THEN in_split_text ELSE traced_in_split END
                AS in_split_text,
            CASE WHEN json_valid(out_split_text) THEN out_split_text ELSE traced_out_split END
                AS out_split_text,
            CASE
                WHEN group_is_traced
                    OR (dtype IS NULL AND traced_dtype IS NOT NULL)
                    OR (coalesce(meta_in, shape_in) IS NULL AND traced_in IS NOT NULL)
                    OR (coalesce(meta_out, shape_out) IS NULL AND traced_out IS NOT NULL)
                    OR (traced_in_split IS NOT NULL AND coalesce(NOT json_valid(in_split_text), true))
                    OR (traced_out_split IS NOT NULL AND coalesce(NOT json_valid(out_split_text), true))
                    THEN 'et'
                WHEN is_launched AND coalesce(shape_in, shape_out) IS NOT NULL THEN 'op'
            END AS size_source,
            meta_group_size, pg_name, pg_desc, ranks_key,
            -- A regular group is known as a whole with its size.
            CASE WHEN rank_stride BETWEEN 1 AND 10000000 AND first_rank BETWEEN 0 AND 10000000
                    AND meta_group_size IS NOT NULL
                THEN first_rank END AS rank_start,
            rank_stride, seq, group_rank, src_rank, dst_rank, concrete_rank
        FROM fields
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
            -- XLA and the records of PyTorch name ranks of the job, others places in the group.
            f.source = 'xla' OR f.source = 'kineto'
                AND CASE WHEN f.collective = 'recv' THEN f.src_rank ELSE f.dst_rank END IS NOT NULL
                AS peer_is_of_job,
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
    ),

    placed AS (
        SELECT
            c.source, c.rank, c.event_id, c.device, c.stream, c.ts_ns, c.dur_ns, c.step_ts_ns,
            c.operation, c.stall_ns, c.collective, c.collective_raw, c.coll_source, c.dtype, c.seq,
            c.pg_name, c.pg_desc, c.stated_size, c.listed_key, c.rank_start, c.rank_stride,
            c.in_elems, c.out_elems, c.in_bytes, c.out_bytes, c.root_rank, c.group_rank, c.in_split,
            c.out_split, c.size_source,
            -- A rank of the job whose group nobody lists stays as it is.
            CASE
                WHEN c.peer_is_of_job AND c.rank_start IS NOT NULL
                    THEN CASE
                        WHEN c.peer_rank BETWEEN c.rank_start AND c.rank_start + c.rank_stride * (c.stated_size - 1)
                            AND (c.peer_rank - c.rank_start) % c.rank_stride = 0
                            THEN (c.peer_rank - c.rank_start) // c.rank_stride
                    END
                WHEN c.peer_is_of_job AND l.ranks IS NOT NULL
                    THEN nullif(list_position(l.ranks, c.peer_rank), 0) - 1
                ELSE c.peer_rank
            END AS peer_rank,
            CASE
                WHEN c.source = 'xla' THEN NULL
                WHEN c.group_rank IS NOT NULL THEN c.group_rank
                WHEN c.rank_start IS NULL THEN nullif(list_position(l.ranks, c.rank), 0) - 1
                WHEN (c.rank - c.rank_start) % c.rank_stride = 0
                    THEN (c.rank - c.rank_start) // c.rank_stride
            END AS own_place
        FROM sized AS c
        LEFT JOIN lists AS l ON l.ranks_key = c.listed_key AND c.peer_rank IS NOT NULL
    )

SELECT
    c.source, c.rank, c.event_id, c.device, c.stream, c.ts_ns, c.dur_ns, c.step_ts_ns,
    -- What one rank sends another is a call of these two, and so is an exchange of both.
    CASE
        WHEN c.own_place IS NULL OR c.peer_rank IS NULL THEN c.operation
        WHEN c.collective = 'send' THEN concat('pair ', c.own_place, ' > ', c.peer_rank)
        WHEN c.collective = 'recv' THEN concat('pair ', c.peer_rank, ' > ', c.own_place)
        WHEN c.collective = 'send_recv' THEN concat(
            'pair ', least(c.own_place, c.peer_rank), ' <> ', greatest(c.own_place, c.peer_rank)
        )
        ELSE c.operation
    END AS operation,
    c.stall_ns, c.collective, c.collective_raw, c.coll_source, c.dtype, c.seq,
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
    c.peer_rank,
    c.group_rank, c.in_split, c.out_split, c.size_source
FROM placed AS c
ORDER BY c.rank, c.ts_ns, c.event_id
