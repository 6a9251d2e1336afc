-- @derived  _coalesced_calls
-- @partition rank
-- @summary  What the calls of a group that one launch serves have recorded, for its kernel: sends
--           and receives in a batch, or collectives of one kind.
-- @requires host_events comm_args
-- @reads    _device_calls launches _comm_words _rank_lists
-- @check    (SELECT count(*) FROM _device_calls WHERE source = 'kineto' AND annotation_event_id IS
--           NOT NULL AND own_word IS NULL AND record_event_id IS NULL) > 0
--           | every launch is inside its call
-- @column   event_id BIGINT dim - | The event of the kernel.
-- @column   kind VARCHAR value - | The kind of its calls; of sends and receives, send_recv.
-- @column   collective_name VARCHAR value - | As recorded; of sends and receives, send_recv.
-- @column   dtype VARCHAR value - | As in comm_args.
-- @column   in_elems BIGINT value - | Elements of all inputs: of the sends, where there are some.
-- @column   out_elems BIGINT value - | Elements of all outputs, likewise of the receives.
-- @column   group_size BIGINT value - | As in comm_args.
-- @column   pg_name VARCHAR value - | As in comm_args.
-- @column   pg_desc VARCHAR value - | As in comm_args.
-- @column   pg_ranks VARCHAR value - | As in comm_args.
-- @column   rank_start BIGINT value - | As in comm_args.
-- @column   rank_stride BIGINT value - | As in comm_args.
-- @column   src_rank BIGINT value - | The place in the group that all is from, without sends.
-- @column   dst_rank BIGINT value - | The place in the group that all is to, and from where there
--           are receives.
-- @column   in_split VARCHAR value - | Elements to each rank of the group, of sends with peers.
-- @column   out_split VARCHAR value - | Elements from each rank of it, likewise.
-- @caveat   The records of a group end before PyTorch launches it in nccl:coalesced. Those of one
--           process group that launched nothing themselves, one after the other right before that
--           range on its thread, are its calls. Of unlike kinds or types they say nothing; where
--           the range launches several kernels, they say no sizes.
-- @source   formats_kineto section 4; product 4 (a coalesced launch is resolved from what it
--           holds); PyTorch ProcessGroupNCCL, startCoalescing and endCoalescing
WITH
    lacking AS (
        SELECT
            annotation_event_id, count(*) AS kernel_count, list(event_id) AS event_ids
        FROM _device_calls
        WHERE source = 'kineto' AND annotation_event_id IS NOT NULL
            AND own_word IS NULL AND record_event_id IS NULL
        GROUP BY annotation_event_id
    ),

    ranges AS (
        SELECT h.rank, h.event_id, h.pid, h.tid, h.ts_ns
        FROM host_events AS h
        INNER JOIN lacking AS w ON w.annotation_event_id = h.event_id
        WHERE h.name = 'nccl:coalesced'
    ),

    launched AS (
        SELECT DISTINCT record_event_id AS event_id
        FROM launches
        WHERE record_event_id IS NOT NULL
    ),

    kinds AS (
        SELECT word, kind
        FROM _comm_words
        WHERE kind NOT IN ('unknown', 'barrier') AND NOT by_kernel
    ),

    -- Ranges and records of a thread in their order; what is no call of a group parts them.
    marks AS (
        SELECT
            h.rank, h.pid, h.tid, h.ts_ns, h.event_id,
            k.kind IS NOT NULL AND l.event_id IS NULL AS is_call,
            row(a.group_size, a.pg_name, a.pg_ranks, a.rank_start, a.rank_stride) AS pg
        FROM host_events AS h
        INNER JOIN (SELECT DISTINCT rank, pid, tid FROM ranges) AS t
            ON t.rank = h.rank AND t.pid IS NOT DISTINCT FROM h.pid
            AND t.tid IS NOT DISTINCT FROM h.tid
        LEFT JOIN comm_args AS a ON a.event_id = h.event_id
        LEFT JOIN launched AS l ON l.event_id = h.event_id
        LEFT JOIN kinds AS k ON k.word = a.collective_name
        WHERE h.name = 'nccl:coalesced' OR (h.name = 'record_param_comms' AND a.event_id IS NOT NULL)
    ),

    begun AS (
        SELECT
            rank, pid, tid, ts_ns, event_id, is_call,
            -- A range follows the calls right before it.
            lag(is_call, 1, false) OVER o AS follows_call,
            lag(pg) OVER o AS pg_before, pg
        FROM marks
        WINDOW o AS (PARTITION BY rank, pid, tid ORDER BY ts_ns, event_id)
    ),

    runs AS (
        SELECT
            event_id, is_call, follows_call,
            CAST(sum(CASE WHEN is_call AND NOT (follows_call AND pg = pg_before) THEN 1 ELSE 0 END)
                OVER (PARTITION BY rank, pid, tid ORDER BY ts_ns, event_id) AS BIGINT) AS run,
            rank, pid, tid
        FROM begun
    ),

    members AS (
        SELECT
            e.event_id AS range_event_id, k.kind, a.collective_name, a.dtype, a.in_elems, a.out_elems,
            a.group_size, a.pg_name, a.pg_desc, a.pg_ranks, a.rank_start, a.rank_stride,
            CASE WHEN k.kind = 'send' THEN a.dst_rank WHEN k.kind = 'recv' THEN a.src_rank END AS peer,
            l.ranks
        FROM runs AS e
        INNER JOIN ranges AS g ON g.event_id = e.event_id
        INNER JOIN runs AS c
            ON c.rank = e.rank AND c.pid IS NOT DISTINCT FROM e.pid AND c.tid IS NOT DISTINCT FROM e.tid
            AND c.run = e.run AND c.is_call
        INNER JOIN comm_args AS a ON a.event_id = c.event_id
        INNER JOIN kinds AS k ON k.word = a.collective_name
        LEFT JOIN _rank_lists AS l ON l.stated = a.pg_ranks AND a.pg_ranks <> '[]'
        WHERE NOT e.is_call AND e.follows_call
    ),

    -- A peer is named by its rank in the job; in a group that nobody lists, places are ranks.
    placed AS (
        SELECT
            range_event_id, kind, collective_name, dtype, in_elems, out_elems, group_size, pg_name,
            pg_desc, pg_ranks, rank_start, rank_stride, peer,
            CASE
                WHEN ranks IS NOT NULL THEN nullif(list_position(ranks, peer), 0) - 1
                WHEN rank_start BETWEEN 0 AND 10000000 AND rank_stride BETWEEN 1 AND 10000000
                    AND peer BETWEEN 0 AND 1099511627776
                    THEN CASE WHEN (peer - rank_start) % rank_stride = 0
                        THEN (peer - rank_start) // rank_stride END
                WHEN rank_start IS NULL AND coalesce(pg_ranks, '[]') = '[]' THEN peer
            END AS place
        FROM members
    ),

    groups AS (
        SELECT
            range_event_id,
            bool_and(kind IN ('send', 'recv')) AS is_paired,
            CASE WHEN min(kind) = max(kind) THEN min(kind) END AS kind,
            CASE WHEN min(kind) = max(kind) THEN min(collective_name) END AS collective_name,
            CASE WHEN count(dtype) = count(*) AND min(dtype) = max(dtype) THEN min(dtype) END AS dtype,
            -- A receive has no input, a send no output.
            count(CASE WHEN kind <> 'recv' THEN kind END) AS input_count,
            count(CASE WHEN kind <> 'send' THEN kind END) AS output_count,
            count(CASE WHEN kind <> 'recv' THEN in_elems END) AS known_input_count,
            count(CASE WHEN kind <> 'send' THEN out_elems END) AS known_output_count,
            sum(CASE WHEN kind <> 'recv' THEN in_elems END) AS in_elems,
            sum(CASE WHEN kind <> 'send' THEN out_elems END) AS out_elems,
            min(group_size) AS group_size,
            min(pg_name) AS pg_name,
            min(nullif(pg_desc, 'undefined')) AS pg_desc,
            min(pg_ranks) AS pg_ranks,
            min(rank_start) AS rank_start,
            min(rank_stride) AS rank_stride,
            list(DISTINCT peer) FILTER (WHERE kind = 'recv') AS origins,
            list(DISTINCT peer) FILTER (WHERE kind = 'send') AS targets,
            count(peer) = count(*) AS has_peers,
            -- A list for each call: of no more ranks than these.
            count(place) = count(*) AND min(group_size) <= 1024
                AND min(place) >= 0 AND max(place) < min(group_size) AS has_places,
            list({kind: kind, place: place, elems: CASE WHEN kind = 'send' THEN in_elems ELSE out_elems END})
                AS parts
        FROM placed
        GROUP BY range_event_id
    ),

    sized AS (
        SELECT
            range_event_id, is_paired, kind, collective_name, dtype, input_count, output_count,
            CASE WHEN dtype IS NOT NULL AND known_input_count = input_count
                THEN TRY_CAST(in_elems AS BIGINT) END AS in_elems,
            CASE WHEN dtype IS NOT NULL AND known_output_count = output_count
                THEN TRY_CAST(out_elems AS BIGINT) END AS out_elems,
            is_paired AND has_places AND dtype IS NOT NULL
                AND known_input_count = input_count AND known_output_count = output_count AS has_splits,
            group_size, pg_name, pg_desc, pg_ranks, rank_start, rank_stride,
            -- Of both, one peer is that of all.
            CASE WHEN has_peers AND len(origins) = 1 AND targets IS NULL THEN origins[1] END AS src_rank,
            CASE WHEN has_peers AND len(targets) = 1 AND coalesce(origins = targets, true)
                THEN targets[1] END AS dst_rank,
            parts
        FROM groups
        WHERE kind IS NOT NULL OR is_paired
    ),

    -- Elements to and from each rank of the group.
    split AS (
        SELECT
            range_event_id,
            list_transform(places, lambda r: coalesce(list_sum(list_transform(
                list_filter(parts, lambda p: p.kind = 'send' AND p.place = r), lambda p: p.elems
            )), 0)) AS in_split,
            list_transform(places, lambda r: coalesce(list_sum(list_transform(
                list_filter(parts, lambda p: p.kind = 'recv' AND p.place = r), lambda p: p.elems
            )), 0)) AS out_split
        FROM (
            SELECT range_event_id, parts, CASE WHEN has_splits THEN range(least(group_size, 1024)) END AS places
            FROM sized
        )
        WHERE places IS NOT NULL
    )

SELECT
    unnest(w.event_ids) AS event_id,
    coalesce(s.kind, 'send_recv') AS kind,
    coalesce(s.collective_name, 'send_recv') AS collective_name,
    s.dtype,
    CASE WHEN w.kernel_count = 1 THEN s.in_elems END AS in_elems,
    CASE WHEN w.kernel_count = 1 THEN s.out_elems END AS out_elems,
    s.group_size, s.pg_name, s.pg_desc, s.pg_ranks, s.rank_start, s.rank_stride,
    s.src_rank, s.dst_rank,
    CASE WHEN w.kernel_count = 1 AND s.input_count > 0 THEN CAST(to_json(p.in_split) AS VARCHAR) END
        AS in_split,
    CASE WHEN w.kernel_count = 1 AND s.output_count > 0 THEN CAST(to_json(p.out_split) AS VARCHAR) END
        AS out_split
FROM sized AS s
INNER JOIN lacking AS w ON w.annotation_event_id = s.range_event_id
LEFT JOIN split AS p ON p.range_event_id = s.range_event_id
