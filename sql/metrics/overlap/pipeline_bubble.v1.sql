-- @metric   pipeline_bubble
-- @version  1
-- @area     overlap
-- @summary  Share of step time in which a device neither computes nor communicates, waiting in send and receive included.
-- @grain    trace
-- @nvtx     partial
-- @requires device_events
-- @reads    busy_intervals collectives steps cards _windows
-- @value    bubble_ratio
-- @check    (SELECT count(*) FROM device_events WHERE class = 'other' AND name IS NULL) = 0 | the names of some kernels are lost, and with them whether they compute or communicate
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   bubble_ratio DOUBLE value ratio lower | 1 - |compute ∪ whole CUDA graphs ∪ comm other than send/recv| / step; mean over the steps of a rank, then over ranks.
-- @column   bubble_time_ms DOUBLE value ms | Bubble summed over ranks and steps.
-- @column   total_time_ms DOUBLE value ms | Step time summed over ranks.
-- @column   method VARCHAR value - | steps, or window where the trace has no steps.
-- @column   expected_ratio DOUBLE value ratio | (p - 1) / (m + p - 1) of the card: p stages, m micro-batches.
-- @column   per_rank MAP value ratio | Bubble of each rank.
-- @caveat   Device work is clipped to the host interval of a step: work that runs after its step ended counts for the next one.
-- @source   metrics 2.E pipeline_bubble_ratio (defect D44: host operators are not busy time)
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
    ),

    plans AS (
        SELECT trace, max(CAST(pp - 1 AS DOUBLE) / nullif(pp_mb + pp - 1, 0)) AS expected_ratio
        FROM cards
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace,
            method,
            avg(bubble_ratio ORDER BY rank) AS bubble_ratio,
            sum(bubble_ns ORDER BY rank) / 1e6 AS bubble_time_ms,
            sum(step_ns) / 1e6 AS total_time_ms,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(bubble_ratio ORDER BY rank))
                AS per_rank
        FROM per_rank
        GROUP BY trace, method
    ),

    final AS (
        SELECT
            t.trace, t.bubble_ratio, t.bubble_time_ms, t.total_time_ms, t.method, p.expected_ratio,
            t.per_rank
        FROM totals AS t
        LEFT JOIN plans AS p ON p.trace = t.trace
    )

SELECT trace, bubble_ratio, bubble_time_ms, total_time_ms, method, expected_ratio, per_rank
FROM final
ORDER BY trace
