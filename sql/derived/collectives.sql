-- @derived  collectives
-- @partition rank
-- @summary  One row per rank and communication call, with kind, sizes, group, step and call.
-- @requires _collective_events
-- @reads    _call_places _shifts _calls _call_kinds process_groups _group_ids steps
-- @caveat   group_size is the world size where nothing states the group and every rank has the same
--           number of calls of the kind; group_source says so.
-- @caveat   wire_bytes of an all-to-all, or a group of sends, whose splits and place in the group
--           are known is what leaves the rank; of any other all-to-all it is the even share.
-- @caveat   A rank that a permute of XLA gives no target sends nothing; its message_bytes are those
--           of its buffer.
-- @caveat   What is of no rank (of a damaged export) is in device_events alone.
-- @source   formats_kineto sections 4, 6 and 7; metrics 1.4
WITH
    -- Place of each rank in its groups, from 1.
    members AS (
        SELECT pg_id, rank, min(place) AS place
        FROM (
            SELECT pg_id, unnest(ranks) AS rank, generate_subscripts(ranks, 1) AS place
            FROM process_groups
        )
        WHERE rank IN (SELECT rank FROM _collective_events)
        GROUP BY pg_id, rank
    ),

    -- The step whose host interval holds the launch, on any thread.
    stepped AS (
        SELECT e.event_id, s.step, s.ts_ns + s.dur_ns AS step_end_ns, e.step_ts_ns
        FROM (
            SELECT source, event_id, rank, step_ts_ns
            FROM _collective_events
            WHERE step_ts_ns IS NOT NULL
        ) AS e
        ASOF LEFT JOIN steps AS s
            ON s.source = e.source AND s.rank = e.rank AND s.ts_ns <= e.step_ts_ns
    ),

    placed AS (
        SELECT
            e.source, e.rank, e.event_id, e.device, e.stream, e.ts_ns, e.dur_ns,
            e.collective, e.collective_raw, e.dtype,
            coalesce(e.stated_size, p.group_size, k.even_size) AS group_size,
            g.pg_id,
            e.in_elems, e.out_elems, e.in_bytes, e.out_bytes,
            e.seq, e.root_rank, e.peer_rank, e.in_split, e.out_split, e.coll_source, e.size_source,
            e.stall_ns, coalesce(g.is_listed, FALSE) AS is_listed,
            -- Place of the rank in its group, from 1; a group of all ranks that nobody lists is in
            -- their order.
            CASE
                WHEN g.is_listed THEN q.place
                WHEN e.group_rank IS NOT NULL THEN e.group_rank + 1
                WHEN coalesce(e.stated_size, p.group_size, k.even_size) = k.world_size THEN e.rank + 1
            END AS place,
            CASE
                WHEN coalesce(e.stated_size, p.group_size) IS NOT NULL THEN 'stated'
                WHEN k.even_size IS NOT NULL THEN 'assumed_world'
            END AS group_source,
            m.collective_id,
            CASE WHEN t.step_ts_ns < t.step_end_ns THEN t.step END AS step
        FROM _collective_events AS e
        LEFT JOIN _group_ids AS g
            ON g.pg_name = e.pg_name AND g.ranks_key IS NOT DISTINCT FROM e.ranks_key
        LEFT JOIN (SELECT pg_id, group_size FROM process_groups) AS p ON p.pg_id = g.pg_id
        LEFT JOIN members AS q ON q.pg_id = g.pg_id AND q.rank = e.rank
        LEFT JOIN _call_kinds AS k ON k.source = e.source AND k.collective = e.collective
        LEFT JOIN _call_places AS a ON a.event_id = e.event_id
        LEFT JOIN _shifts AS h ON h.series_id = a.series_id AND h.rank = a.rank
        LEFT JOIN _calls AS m
            ON m.series_id = a.series_id AND m.repeat = a.repeat
            AND m.call_place = a.place + coalesce(h.shift, 0)
        LEFT JOIN stepped AS t ON t.event_id = e.event_id
    ),

    -- Sends to known peers are listed up to the last of them: ranks after it get nothing.
    grouped AS (
        SELECT
            source, rank, event_id, device, stream, ts_ns, dur_ns, collective, collective_raw, dtype,
            group_size, pg_id, in_elems, out_elems, seq, root_rank, peer_rank,
            coalesce(in_bytes, CASE WHEN collective = 'all_to_all' AND list_max(in_split) = 0 THEN 0 END)
                AS in_bytes,
            coalesce(out_bytes, CASE WHEN collective = 'all_to_all' AND list_max(out_split) = 0 THEN 0 END)
                AS out_bytes,
            CASE WHEN source = 'nsys' AND len(in_split) < group_size AND group_size <= 8192
                THEN list_resize(in_split, group_size, 0) ELSE in_split END AS in_split,
            CASE WHEN source = 'nsys' AND len(out_split) < group_size AND group_size <= 8192
                THEN list_resize(out_split, group_size, 0) ELSE out_split END AS out_split,
            coll_source, size_source, group_source, collective_id, step, stall_ns, is_listed, place
        FROM placed
    ),

    sized AS (
        SELECT
            source, rank, event_id, device, stream, ts_ns, dur_ns, collective, collective_raw, dtype,
            group_size, pg_id, in_elems, out_elems, in_bytes, out_bytes, seq, root_rank, peer_rank,
            in_split, out_split, coll_source, size_source, group_source, collective_id, step, stall_ns,
            -- Of what an all-to-all with splits sends, the share that leaves the rank; splits may
            -- count rows.
            CASE
                WHEN collective IN ('all_to_all', 'send', 'send_recv') AND len(in_split) = group_size AND list_min(in_split) >= 0
                    AND place BETWEEN 1 AND group_size
                    AND list_sum(in_split) BETWEEN 1 AND 4611686018427387904
                    THEN list_sum(in_split) - in_split[place]
            END AS leaving_split,
            -- In a permute of XLA that pairs the ranks, who has no target, or itself, sends
            -- nothing.
            source = 'xla' AND collective = 'send_recv' AND is_listed
                AND coalesce(peer_rank + 1 = place, true) AS sends_nothing,
            CASE
                WHEN collective IN ('barrier', 'unknown') THEN NULL
                WHEN collective = 'all_gather' THEN coalesce(out_bytes, in_bytes * group_size)
                WHEN collective = 'reduce_scatter' THEN coalesce(in_bytes, out_bytes * group_size)
                WHEN collective = 'recv' THEN coalesce(nullif(in_bytes, 0), out_bytes)
                ELSE coalesce(in_bytes, out_bytes)
            END AS message_bytes
        FROM grouped
    )

SELECT
    source, rank, event_id, device, stream, ts_ns, dur_ns, collective, collective_raw, dtype,
    group_size, pg_id, in_elems, out_elems, in_bytes, out_bytes, message_bytes,
    CASE
        WHEN sends_nothing THEN message_bytes * 0
        WHEN collective = 'all_reduce'
            THEN TRY_CAST(2 * CAST(message_bytes AS HUGEINT) * (group_size - 1) // group_size AS BIGINT)
        WHEN leaving_split IS NOT NULL
            THEN CAST(CAST(message_bytes AS HUGEINT) * leaving_split // list_sum(in_split) AS BIGINT)
        WHEN collective IN ('all_gather', 'reduce_scatter', 'all_to_all', 'gather', 'scatter')
            THEN TRY_CAST(CAST(message_bytes AS HUGEINT) * (group_size - 1) // group_size AS BIGINT)
        WHEN collective IN ('broadcast', 'reduce', 'send', 'recv', 'send_recv')
            THEN message_bytes
    END AS wire_bytes,
    seq, root_rank, peer_rank, in_split, out_split, coll_source, size_source, group_source,
    collective_id, step, stall_ns
FROM sized
ORDER BY rank, ts_ns, event_id
