-- @metric   all_to_all_imbalance_ratio
-- @version  1
-- @area     traffic
-- @summary  How unevenly the ranks send in an all-to-all: the most that one of them sends, over the
--           mean, mean over the calls.
-- @grain    trace
-- @requires collectives
-- @reads    _clock_shifts
-- @value    all_to_all_imbalance_ratio
-- @coverage size_coverage_ratio | message sizes of all ranks are
-- @warn     clock_aligned
--           | the clocks of the ranks differ: their offsets (clock_offsets) are taken away; -p
--           align=false compares the clocks as recorded
-- @check    (SELECT count(*) FROM collectives WHERE collective = 'all_to_all') > 0
--           | the trace has no all-to-all
-- @check    coalesce((SELECT max(in_bytes) FROM collectives WHERE collective = 'all_to_all') > 0,
--           true)
--           | every all-to-all of known size sends 0 bytes
-- @null     no all-to-all was found on two ranks or more with the bytes of each
-- @param    align BOOLEAN NULL | Take the offsets of the clocks (clock_offsets) from the times of
--           the ranks before they are compared: true or false; without it where an offset exceeds
--           both its uncertainty and the median lag of the calls.
-- @param    calls BIGINT 10 | Calls that are listed, the largest first.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   all_to_all_imbalance_ratio DOUBLE value ratio lower | Largest / mean of the input bytes
--           over the ranks of a call; 1 where all send the same. Mean over the calls.
-- @column   weighted_ratio DOUBLE value ratio | The same, weighted by the bytes of the calls.
-- @column   max_ratio DOUBLE value ratio | Largest of a call.
-- @column   received_imbalance_ratio DOUBLE value ratio | Largest / mean of the output bytes, mean
--           over the calls; NULL where no output is known.
-- @column   received_weighted_ratio DOUBLE value ratio | The same, weighted by the bytes of the
--           calls.
-- @column   calls BIGINT value calls | Calls of all-to-all, over their ranks once where they are
--           matched.
-- @column   calls_with_size BIGINT value calls | Matched calls of two ranks or more whose bytes all
--           of them state; a call of 0 bytes has no ratio.
-- @column   uneven_calls BIGINT value calls | Those of them whose ranks send or receive different
--           amounts, or whose splits differ.
-- @column   size_coverage_ratio DOUBLE value ratio | calls_with_size / calls.
-- @column   total_gb DOUBLE value gb | Input bytes of all ranks of the calls that count.
-- @column   wall_time_us DOUBLE value us | Last end - first start of a call, summed over the calls.
-- @column   clock_aligned BOOLEAN value - | NULL where no call is matched. Whether the offsets of
--           the clocks were taken away: see the parameter align.
-- @column   largest_calls LIST value - | Of the largest calls: collective_id, pg_id, group_size,
--           ranks_seen, dtype, step, total_bytes, total_elements, wall_us, throughput_gb_per_s
--           (total / wall), largest, least and mean duration of a rank, largest and least
--           throughput of a rank (its bytes / its duration), imbalance_ratio,
--           received_imbalance_ratio, start_skew_us, end_skew_us, and by rank: sent_bytes,
--           received_bytes, duration_us, wait_us (last start - own start).
-- @column   summary LIST value - | By group and type: calls, mean, median, least and largest bytes,
--           wall and throughput, mean and largest imbalance_ratio, start and end skew,
--           total_wall_ms.
-- @caveat   Sizes do not depend on clocks; wall, skew and waits do.
-- @warn     len(list_filter(largest_calls, lambda c: c.ranks_seen < c.group_size)) > 0
--           | not every rank of the groups was ingested: those that are missing do not count
--           (ranks_seen)
-- @source   metrics 7.2 nccl_all2allv and nccl_summary_all2allv (there in MiB, GiB/s)
WITH
    shares AS (
        SELECT
            c.trace, c.collective_id, c.rank, c.pg_id, c.group_size, c.dtype, c.step, c.in_bytes, c.out_bytes,
            c.in_elems, c.dur_ns,
            c.ts_ns - o.shift_ns AS start_ns, o.aligned,
            coalesce(list_min(c.in_split) <> list_max(c.in_split), false) AS uneven
        FROM collectives AS c
        INNER JOIN _clock_shifts AS o ON o.trace = c.trace AND o.rank = c.rank
        WHERE c.collective = 'all_to_all'
            AND c.collective_id IS NOT NULL
            AND o.aligned = coalesce($align, o.by_itself)
    ),

    calls AS (
        SELECT
            trace, collective_id, max(pg_id) AS pg_id, max(group_size) AS group_size, count(*) AS ranks_seen,
            max(dtype) AS dtype, min(step) AS step,
            CAST(sum(in_bytes) AS DOUBLE) AS total_bytes,
            CAST(sum(in_elems) AS DOUBLE) AS total_elements,
            (max(start_ns + dur_ns) - min(start_ns)) / 1e3 AS wall_us,
            max(dur_ns) / 1e3 AS max_rank_us, min(dur_ns) / 1e3 AS min_rank_us, avg(dur_ns) / 1e3 AS mean_rank_us,
            max(CAST(in_bytes AS DOUBLE) / nullif(dur_ns, 0)) AS max_rank_gb_per_s,
            min(CAST(in_bytes AS DOUBLE) / nullif(dur_ns, 0)) AS min_rank_gb_per_s,
            max(in_bytes) / nullif(avg(in_bytes), 0) AS imbalance_ratio,
            CASE WHEN count(out_bytes) = count(*) THEN max(out_bytes) / nullif(avg(out_bytes), 0) END
                AS received_imbalance_ratio,
            (max(start_ns) - min(start_ns)) / 1e3 AS start_skew_us,
            (max(start_ns + dur_ns) - min(start_ns + dur_ns)) / 1e3 AS end_skew_us,
            bool_or(uneven) OR min(in_bytes) < max(in_bytes) OR coalesce(min(out_bytes) < max(out_bytes), false)
                AS uneven
        FROM shares
        GROUP BY trace, collective_id
        HAVING count(*) > 1 AND count(in_bytes) = count(*)
    ),

    clocks AS (
        SELECT trace, bool_or(aligned) AS clock_aligned
        FROM shares
        GROUP BY trace
    ),

    counts AS (
        SELECT
            trace,
            count(DISTINCT collective_id) + count(*) FILTER (WHERE collective_id IS NULL) AS calls
        FROM collectives
        WHERE collective = 'all_to_all'
        GROUP BY trace
    ),

    largest AS (
        SELECT trace, collective_id
        FROM calls
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY total_bytes DESC, collective_id) <= $calls
    ),

    rank_lists AS (
        SELECT
            s.trace, s.collective_id,
            array_agg({
                rank: s.rank, sent_bytes: s.in_bytes, received_bytes: s.out_bytes, duration_us: s.dur_ns / 1e3,
                wait_us: s.wait_ns / 1e3
            } ORDER BY s.rank) AS by_rank
        FROM (
            SELECT
                trace, collective_id, rank, in_bytes, out_bytes, dur_ns,
                max(start_ns) OVER (PARTITION BY trace, collective_id) - start_ns AS wait_ns
            FROM shares
        ) AS s
        INNER JOIN largest AS l ON l.trace = s.trace AND l.collective_id = s.collective_id
        GROUP BY s.trace, s.collective_id
    ),

    largest_lists AS (
        SELECT
            c.trace,
            array_agg({
                collective_id: c.collective_id, pg_id: c.pg_id, group_size: c.group_size,
                ranks_seen: c.ranks_seen, dtype: c.dtype, step: c.step,
                total_bytes: TRY_CAST(c.total_bytes AS BIGINT),
                total_elements: TRY_CAST(c.total_elements AS BIGINT), wall_us: c.wall_us,
                throughput_gb_per_s: c.total_bytes / nullif(c.wall_us, 0) / 1e3,
                max_rank_us: c.max_rank_us, min_rank_us: c.min_rank_us, mean_rank_us: c.mean_rank_us,
                max_rank_gb_per_s: c.max_rank_gb_per_s, min_rank_gb_per_s: c.min_rank_gb_per_s,
                imbalance_ratio: c.imbalance_ratio, received_imbalance_ratio: c.received_imbalance_ratio,
                start_skew_us: c.start_skew_us, end_skew_us: c.end_skew_us, by_rank: r.by_rank
            } ORDER BY c.total_bytes DESC, c.collective_id) AS largest_calls
        FROM calls AS c
        INNER JOIN rank_lists AS r ON r.trace = c.trace AND r.collective_id = c.collective_id
        GROUP BY c.trace
    ),

    rated AS (
        SELECT
            trace, pg_id, group_size, dtype, total_bytes, wall_us, imbalance_ratio, start_skew_us, end_skew_us,
            total_bytes / nullif(wall_us, 0) / 1e3 AS throughput_gb_per_s
        FROM calls
    ),

    groups AS (
        SELECT
            trace, pg_id, group_size, dtype, count(*) AS calls,
            avg(total_bytes ORDER BY total_bytes) AS mean_bytes, quantile_cont(total_bytes, 0.5) AS median_bytes,
            min(total_bytes) AS min_bytes, max(total_bytes) AS max_bytes,
            avg(wall_us ORDER BY wall_us) AS mean_wall_us, quantile_cont(wall_us, 0.5) AS median_wall_us,
            min(wall_us) AS min_wall_us, max(wall_us) AS max_wall_us,
            avg(throughput_gb_per_s ORDER BY throughput_gb_per_s) AS mean_gb_per_s,
            quantile_cont(throughput_gb_per_s, 0.5) AS median_gb_per_s,
            min(throughput_gb_per_s) AS min_gb_per_s, max(throughput_gb_per_s) AS max_gb_per_s,
            avg(imbalance_ratio ORDER BY imbalance_ratio) AS mean_imbalance_ratio,
            max(imbalance_ratio) AS max_imbalance_ratio,
            avg(start_skew_us ORDER BY start_skew_us) AS mean_start_skew_us,
            max(start_skew_us) AS max_start_skew_us,
            avg(end_skew_us ORDER BY end_skew_us) AS mean_end_skew_us,
            max(end_skew_us) AS max_end_skew_us,
            sum(wall_us ORDER BY wall_us) / 1e3 AS total_wall_ms
        FROM rated
        GROUP BY trace, pg_id, group_size, dtype
    ),

    summaries AS (
        SELECT
            trace,
            array_agg({
                pg_id: pg_id, group_size: group_size, dtype: dtype, calls: calls, mean_bytes: mean_bytes,
                median_bytes: median_bytes, min_bytes: min_bytes, max_bytes: max_bytes,
                mean_wall_us: mean_wall_us, median_wall_us: median_wall_us, min_wall_us: min_wall_us,
                max_wall_us: max_wall_us, mean_gb_per_s: mean_gb_per_s, median_gb_per_s: median_gb_per_s,
                min_gb_per_s: min_gb_per_s, max_gb_per_s: max_gb_per_s,
                mean_imbalance_ratio: mean_imbalance_ratio, max_imbalance_ratio: max_imbalance_ratio,
                mean_start_skew_us: mean_start_skew_us, max_start_skew_us: max_start_skew_us,
                mean_end_skew_us: mean_end_skew_us, max_end_skew_us: max_end_skew_us,
                total_wall_ms: total_wall_ms
            } ORDER BY pg_id, group_size, dtype) AS summary
        FROM groups
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace, count(*) AS calls_with_size,
            avg(imbalance_ratio ORDER BY imbalance_ratio) AS all_to_all_imbalance_ratio,
            sum(imbalance_ratio * total_bytes ORDER BY collective_id)
                / nullif(sum(total_bytes ORDER BY collective_id), 0) AS weighted_ratio,
            max(imbalance_ratio) AS max_ratio,
            avg(received_imbalance_ratio ORDER BY received_imbalance_ratio) AS received_imbalance_ratio,
            sum(received_imbalance_ratio * total_bytes ORDER BY collective_id)
                / nullif(sum(total_bytes ORDER BY collective_id) FILTER (WHERE received_imbalance_ratio IS NOT NULL), 0)
                AS received_weighted_ratio,
            count(*) FILTER (WHERE uneven) AS uneven_calls,
            sum(total_bytes ORDER BY collective_id) / 1e9 AS total_gb,
            sum(wall_us ORDER BY collective_id) AS wall_time_us
        FROM calls
        GROUP BY trace
    )

SELECT
    c.trace, t.all_to_all_imbalance_ratio, t.weighted_ratio, t.max_ratio, t.received_imbalance_ratio,
    t.received_weighted_ratio, c.calls, coalesce(t.calls_with_size, 0) AS calls_with_size,
    t.uneven_calls, CAST(coalesce(t.calls_with_size, 0) AS DOUBLE) / c.calls AS size_coverage_ratio,
    t.total_gb, t.wall_time_us, a.clock_aligned, l.largest_calls, s.summary
FROM counts AS c
LEFT JOIN totals AS t ON t.trace = c.trace
LEFT JOIN clocks AS a ON a.trace = c.trace
LEFT JOIN largest_lists AS l ON l.trace = c.trace
LEFT JOIN summaries AS s ON s.trace = c.trace
ORDER BY c.trace
