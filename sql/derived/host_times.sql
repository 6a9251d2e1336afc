-- @derived  host_times
-- @partition rank
-- @summary  How long operators run on the host of each rank, by step, and how much of it no device
--           works beside.
-- @requires _ranges _threads
-- @reads    device_events steps
-- @source   metrics 2.A cpu_overhead_s
WITH
    operators AS (
        SELECT
            r.source, r.rank, r.pid, r.tid, t.is_main,
            interval_union(array_agg({start_ns: r.ts_ns, end_ns: r.end_ns})) AS spans
        FROM _ranges AS r
        INNER JOIN _threads AS t
            ON t.source = r.source AND t.rank = r.rank
            AND t.pid IS NOT DISTINCT FROM r.pid AND t.tid IS NOT DISTINCT FROM r.tid
        WHERE r.kind = 'operator'
        GROUP BY r.source, r.rank, r.pid, r.tid, t.is_main
    ),

    busy AS (
        SELECT
            source, rank,
            interval_union(array_agg({
                start_ns: ts_ns, end_ns: ts_ns + dur_ns + coalesce(ts_ps + dur_ps, 0) // 1000
            })) AS spans
        FROM device_events
        WHERE class IN ('comm', 'compute', 'copy', 'set', 'graph') AND dur_ns IS NOT NULL
        GROUP BY source, rank
    ),

    windows AS (
        SELECT source, rank, step, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns
        FROM steps
        UNION ALL
        -- Without steps, all of it.
        SELECT o.source, o.rank, CAST(NULL AS BIGINT), min(list_extract(o.spans, 1).start_ns), max(list_extract(o.spans, -1).end_ns)
        FROM operators AS o
        WHERE NOT EXISTS (SELECT 1 FROM steps AS s WHERE s.source = o.source AND s.rank = o.rank)
        GROUP BY o.source, o.rank
    ),

    rank_windows AS (
        SELECT
            source, rank,
            array_agg(step ORDER BY start_ns, step) AS steps,
            array_agg({start_ns: start_ns, end_ns: end_ns} ORDER BY start_ns, step) AS spans
        FROM windows
        GROUP BY source, rank
    ),

    -- Time of operators in each step: of each thread, and of the main one that no device works
    -- beside.
    times AS (
        SELECT
            o.source, o.rank, o.is_main,
            unnest(w.steps) AS step,
            unnest(interval_overlaps_ns(o.spans, w.spans)) AS op_ns,
            unnest(CASE WHEN o.is_main THEN
                interval_overlaps_ns(interval_subtract(o.spans, coalesce(b.spans, [])), w.spans)
            END) AS exposed_ns
        FROM operators AS o
        INNER JOIN rank_windows AS w ON w.source = o.source AND w.rank = o.rank
        LEFT JOIN busy AS b ON b.source = o.source AND b.rank = o.rank
    )

SELECT
    source, rank, step,
    coalesce(TRY_CAST(sum(op_ns) FILTER (WHERE is_main) AS BIGINT), 0) AS main_op_ns,
    coalesce(TRY_CAST(sum(exposed_ns) AS BIGINT), 0) AS exposed_op_ns,
    coalesce(TRY_CAST(sum(op_ns) AS BIGINT), 0) AS op_self_ns
FROM times
GROUP BY source, rank, step
ORDER BY source, rank, step
