-- @view     _host_work
-- @summary  How long the host of a rank is at work between launches in a step, and how often it
--           waits for the device; mean over the steps that count.
-- @materialize session
-- @requires _launch_calls _account_windows
-- @reads    _blocking_calls phases
-- @caveat   Work is what lies between the first and the last launch call, in no launch call, and in
--           no call of a launching thread that waits for the device: it is the same whether other
--           ranks hold up the device or not. load_ms of it is in phases of data
--           loading. waits are such calls.
WITH
    threads AS (
        SELECT DISTINCT trace, rank, coalesce(pid, -1) AS pid, coalesce(tid, -1) AS tid
        FROM _launch_calls
        WHERE rank IS NOT NULL
    ),

    launches AS (
        SELECT
            trace, rank, min(launched_ns) AS first_ns, max(launch_ts_ns) AS last_ns,
            array_agg({start_ns: launch_ts_ns, end_ns: launched_ns}) FILTER (
                WHERE launched_ns > launch_ts_ns
            ) AS spans
        FROM _launch_calls
        WHERE rank IS NOT NULL
        GROUP BY trace, rank
    ),

    blocks AS MATERIALIZED (
        SELECT b.trace, b.rank, b.ts_ns, b.end_ns
        FROM _blocking_calls AS b
        INNER JOIN threads AS t
            ON t.trace = b.trace
            AND t.rank = b.rank
            AND t.pid = coalesce(b.pid, -1)
            AND t.tid = coalesce(b.tid, -1)
        WHERE b.waits OR b.copy_end_ns IS NOT NULL
    ),

    blocked AS (
        SELECT
            trace, rank,
            array_agg({start_ns: ts_ns, end_ns: end_ns}) FILTER (WHERE end_ns > ts_ns) AS spans
        FROM blocks
        GROUP BY trace, rank
    ),

    counts AS (
        SELECT b.trace, b.rank, count(*) AS block_count
        FROM blocks AS b
        ASOF INNER JOIN _account_windows AS w
            ON w.trace = b.trace AND w.rank = b.rank AND w.start_ns <= b.ts_ns
        WHERE w.is_counted AND b.ts_ns < w.end_ns
        GROUP BY b.trace, b.rank
    ),

    loads AS (
        SELECT
            trace, rank,
            array_agg({start_ns: ts_ns, end_ns: ts_ns + dur_ns}) FILTER (WHERE dur_ns > 0) AS spans
        FROM phases
        WHERE phase = 'data_loading'
        GROUP BY trace, rank
    ),

    -- What of each step lies between the first and the last launch.
    windows AS (
        SELECT
            w.trace, w.rank, count(*) AS window_count,
            array_agg({
                start_ns: greatest(w.start_ns, l.first_ns), end_ns: least(w.end_ns, l.last_ns)
            }) FILTER (WHERE least(w.end_ns, l.last_ns) > greatest(w.start_ns, l.first_ns)) AS spans
        FROM _account_windows AS w
        INNER JOIN launches AS l ON l.trace = w.trace AND l.rank = w.rank
        WHERE w.is_counted
        GROUP BY w.trace, w.rank
    ),

    works AS (
        SELECT
            w.trace, w.rank, w.window_count,
            interval_subtract(
                interval_subtract(coalesce(w.spans, []), coalesce(l.spans, [])),
                coalesce(b.spans, [])
            ) AS spans
        FROM windows AS w
        INNER JOIN launches AS l ON l.trace = w.trace AND l.rank = w.rank
        LEFT JOIN blocked AS b ON b.trace = w.trace AND b.rank = w.rank
    )

SELECT
    w.trace, w.rank, interval_union_ns(w.spans) / 1e6 / w.window_count AS work_ms,
    interval_overlap_ns(w.spans, coalesce(l.spans, [])) / 1e6 / w.window_count AS load_ms,
    CAST(coalesce(c.block_count, 0) AS DOUBLE) / w.window_count AS waits
FROM works AS w
LEFT JOIN loads AS l ON l.trace = w.trace AND l.rank = w.rank
LEFT JOIN counts AS c ON c.trace = w.trace AND c.rank = w.rank
