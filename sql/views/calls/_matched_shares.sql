-- @view     _matched_shares
-- @summary  Matched calls of several ranks with the share of each rank as a list, and whether it is
--           an uneven all-to-all.
-- @materialize session
-- @requires collective_calls collectives
-- @reads    _group_names _clock_shifts
-- @caveat   Times of ranks are compared with the offsets of their clocks taken away where
--           _clock_shifts says so (clock_aligned).
WITH
    placed AS (
        SELECT
            c.trace, c.collective_id, c.rank, c.device, c.ts_ns - o.shift_ns AS start_ns,
            c.dur_ns, c.collective, c.in_elems, c.out_elems, c.in_bytes, c.out_bytes, c.in_split, o.aligned,
            min(c.ts_ns - o.shift_ns) OVER (PARTITION BY c.trace) AS first_ns
        FROM collectives AS c
        INNER JOIN _clock_shifts AS o
            ON o.trace = c.trace AND o.rank = c.rank AND o.aligned = o.by_itself
    ),

    shares AS (
        SELECT
            c.trace, c.collective_id, c.rank, c.device, c.start_ns, c.dur_ns, c.in_elems,
            c.out_elems, c.in_bytes, c.out_bytes, c.aligned, c.first_ns,
            max(c.start_ns) OVER (PARTITION BY c.trace, c.collective_id) - c.start_ns AS wait_ns,
            -- An even all-to-all gives each rank as much as it takes; who sends to some ranks only
            -- is not uneven.
            (c.collective NOT IN ('send', 'recv', 'send_recv')
                    AND coalesce(list_min(c.in_split) <> list_max(c.in_split), false))
                OR (c.collective = 'all_to_all' AND coalesce(c.in_bytes <> c.out_bytes, false)) AS uneven
        FROM placed AS c
        WHERE c.collective_id IS NOT NULL
    ),

    per_call AS (
        SELECT
            trace, collective_id,
            bool_or(uneven) AS uneven,
            min(in_elems) AS in_elems,
            min(out_elems) AS out_elems,
            min(in_bytes) AS in_bytes,
            min(out_bytes) AS out_bytes,
            TRY_CAST(sum(in_elems) AS BIGINT) AS all_in_elems,
            TRY_CAST(sum(in_bytes) AS BIGINT) AS all_in_bytes,
            max(in_bytes) / nullif(avg(in_bytes), 0) AS size_imbalance_ratio,
            min(dur_ns) AS min_dur_ns,
            max(dur_ns) AS max_dur_ns,
            avg(dur_ns) AS mean_dur_ns,
            min(start_ns) AS first_start_ns,
            max(start_ns + dur_ns) AS last_end_ns,
            max(start_ns) - min(start_ns) AS start_skew_ns,
            max(start_ns + dur_ns) - min(start_ns + dur_ns) AS end_skew_ns,
            avg(wait_ns) AS mean_wait_ns,
            bool_or(aligned) AS clock_aligned,
            min(in_bytes / nullif(dur_ns, 0)) AS min_rank_gb_per_s,
            max(in_bytes / nullif(dur_ns, 0)) AS max_rank_gb_per_s,
            array_agg({
                rank: rank, ts: (start_ns - first_ns) / 1e3, dur: dur_ns / 1e3, wait_time: wait_ns / 1e3,
                in_mb: in_bytes / 1e6, out_mb: out_bytes / 1e6
            } ORDER BY rank, device) AS by_rank
        FROM shares
        GROUP BY trace, collective_id
    )

SELECT
    k.trace, k.source, k.collective_id, g.pg_name, g.pg_ranks, k.collective,
    k.group_size, k.dtype, s.uneven, s.in_elems, s.out_elems, s.in_bytes, s.out_bytes, k.message_bytes,
    s.all_in_elems, s.all_in_bytes, s.size_imbalance_ratio, s.min_dur_ns, s.max_dur_ns, s.mean_dur_ns,
    s.min_rank_gb_per_s, s.max_rank_gb_per_s, s.first_start_ns, s.last_end_ns, s.start_skew_ns,
    s.end_skew_ns, s.mean_wait_ns, k.algo_bw_gb_per_s, k.bus_bw_gb_per_s, s.by_rank,
    s.clock_aligned
FROM collective_calls AS k
INNER JOIN per_call AS s ON s.trace = k.trace AND s.collective_id = k.collective_id
LEFT JOIN _group_names AS g ON g.trace = k.trace AND g.pg_id = k.pg_id
