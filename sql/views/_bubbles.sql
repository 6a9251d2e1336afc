-- @view     _bubbles
-- @summary  Bubble of each rank: step time in which its devices neither compute nor communicate, waiting in send and receive included.
-- @materialize session
-- @requires busy_intervals collectives steps _windows
WITH
    step_windows AS (
        SELECT trace, rank, step, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns, 'steps' AS method
        FROM steps
        WHERE dur_ns > 0
    ),

    windows AS (
        SELECT trace, rank, step, start_ns, end_ns, method
        FROM step_windows
        UNION ALL
        SELECT w.trace, w.rank, CAST(NULL AS BIGINT), w.start_ns, w.end_ns, 'window'
        FROM _windows AS w
        WHERE w.end_ns > w.start_ns
            AND NOT EXISTS (SELECT 1 FROM step_windows AS s WHERE s.trace = w.trace)
    ),

    work AS (
        SELECT trace, rank, device, start_ns, end_ns
        FROM busy_intervals
        WHERE class IN ('compute', 'graph')
        UNION ALL
        SELECT trace, rank, device, ts_ns, ts_ns + dur_ns
        FROM collectives
        WHERE device IS NOT NULL
            AND dur_ns IS NOT NULL
            AND collective NOT IN ('send', 'recv', 'send_recv')
    ),

    -- Disjoint spans of each device, and how long it was busy before each of them.
    merged AS (
        SELECT
            trace, rank, device,
            unnest(interval_union(array_agg({start_ns: start_ns, end_ns: end_ns}))) AS span
        FROM work
        GROUP BY trace, rank, device
    ),

    spans AS (
        SELECT
            trace, rank, device, span.start_ns AS start_ns, span.end_ns AS end_ns,
            sum(span.end_ns - span.start_ns) OVER (
                PARTITION BY trace, rank, device ORDER BY span.start_ns
            ) - (span.end_ns - span.start_ns) AS before_ns
        FROM merged
    ),

    devices AS (
        SELECT DISTINCT trace, rank, device
        FROM work
    ),

    device_windows AS (
        SELECT
            w.trace, w.rank, w.step, w.method, w.start_ns, w.end_ns,
            coalesce(d.device, -1) AS device_key
        FROM windows AS w
        LEFT JOIN devices AS d ON d.trace = w.trace AND d.rank = w.rank
    ),

    keyed AS (
        SELECT trace, rank, coalesce(device, -1) AS device_key, start_ns, end_ns, before_ns
        FROM spans
    ),

    -- Busy time up to the start and up to the end of each window; their difference is inside it.
    busy AS (
        SELECT
            w.trace, w.rank, w.step, w.method, w.start_ns, w.end_ns,
            coalesce(e.before_ns + least(w.end_ns, e.end_ns) - e.start_ns, 0)
                - coalesce(s.before_ns + least(w.start_ns, s.end_ns) - s.start_ns, 0) AS busy_ns
        FROM device_windows AS w
        ASOF LEFT JOIN keyed AS s
            ON s.trace = w.trace AND s.rank = w.rank AND s.device_key = w.device_key
            AND s.start_ns <= w.start_ns
        ASOF LEFT JOIN keyed AS e
            ON e.trace = w.trace AND e.rank = w.rank AND e.device_key = w.device_key
            AND e.start_ns <= w.end_ns
    ),

    per_step AS (
        SELECT
            trace, rank, method, start_ns,
            end_ns - start_ns AS step_ns,
            avg(end_ns - start_ns - busy_ns) AS bubble_ns
        FROM busy
        GROUP BY trace, rank, step, method, start_ns, end_ns
    ),

    per_rank AS (
        SELECT
            trace, rank, method,
            avg(bubble_ns / step_ns ORDER BY start_ns) AS bubble_ratio,
            sum(bubble_ns ORDER BY start_ns) AS bubble_ns,
            sum(step_ns) AS step_ns
        FROM per_step
        GROUP BY trace, rank, method
    )

SELECT trace, rank, method, bubble_ratio, bubble_ns, step_ns
FROM per_rank
