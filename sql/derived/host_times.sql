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

    -- Spans of operators: of all threads, of the main one, and of that what no device works beside.
    pieces AS (
        SELECT source, rank, 'all' AS what, unnest(spans) AS span
        FROM operators
        UNION ALL
        SELECT source, rank, 'main', unnest(spans)
        FROM operators
        WHERE is_main
        UNION ALL
        SELECT o.source, o.rank, 'exposed', unnest(interval_subtract(o.spans, coalesce(b.spans, [])))
        FROM operators AS o
        LEFT JOIN busy AS b ON b.source = o.source AND b.rank = o.rank
        WHERE o.is_main
    ),

    first_steps AS (
        SELECT
            p.source, p.rank, p.what, p.span.start_ns AS start_ns, p.span.end_ns AS end_ns,
            w.step, w.start_ns AS window_ns, w.end_ns AS window_end_ns
        FROM pieces AS p
        ASOF LEFT JOIN windows AS w
            ON w.source = p.source AND w.rank = p.rank AND w.start_ns <= p.span.start_ns
    ),

    -- A piece lies in the step in which it begins; few reach into later ones.
    stepped AS (
        SELECT source, rank, step, window_ns, what, least(end_ns, window_end_ns) - start_ns AS time_ns
        FROM first_steps
        WHERE start_ns < window_end_ns
        UNION ALL
        SELECT
            f.source, f.rank, w.step, w.start_ns, f.what,
            least(f.end_ns, w.end_ns) - w.start_ns
        FROM first_steps AS f
        INNER JOIN windows AS w
            ON w.source = f.source AND w.rank = f.rank
            AND w.start_ns > f.start_ns AND w.start_ns < f.end_ns
        WHERE f.window_end_ns IS NULL OR f.end_ns > f.window_end_ns
    ),

    -- Ranks with operators.
    working AS (
        SELECT DISTINCT source, rank
        FROM operators
    )

SELECT
    w.source, w.rank, w.step,
    coalesce(TRY_CAST(sum(p.time_ns) FILTER (WHERE p.what = 'main') AS BIGINT), 0) AS main_op_ns,
    coalesce(TRY_CAST(sum(p.time_ns) FILTER (WHERE p.what = 'exposed') AS BIGINT), 0) AS exposed_op_ns,
    coalesce(TRY_CAST(sum(p.time_ns) FILTER (WHERE p.what = 'all') AS BIGINT), 0) AS op_self_ns
FROM windows AS w
INNER JOIN working AS r ON r.source = w.source AND r.rank = w.rank
LEFT JOIN stepped AS p
    ON p.source = w.source AND p.rank = w.rank AND p.step IS NOT DISTINCT FROM w.step
    AND p.window_ns = w.start_ns
GROUP BY w.source, w.rank, w.step
ORDER BY w.source, w.rank, w.step
