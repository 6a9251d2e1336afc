-- @view     _rank_bubbles
-- @summary  Bubble of each rank: step time in which its devices neither compute nor communicate,
--           waiting in send and receive included.
-- @materialize session
-- @partition rank
-- @requires busy_intervals collectives steps _windows
-- @reads    launches device_events _range_meanings
-- @caveat   is_staged: ranges on the rank mark stages. Where ranges mark the stages of a pipeline,
--           what the devices of a rank do for anything else (an optimizer) is taken off the step:
--           it is no time of the pipeline.
WITH
    -- A step may be marked twice.
    step_windows AS (
        SELECT DISTINCT
            trace, rank, step, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns, 'steps' AS method
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

    -- What was launched inside a stage.
    stage_work AS (
        SELECT d.trace, d.rank, d.device, d.ts_ns AS start_ns, d.ts_ns + d.dur_ns AS end_ns
        FROM launches AS l
        INNER JOIN _range_meanings AS m ON m.trace = l.trace AND m.event_id = l.range_event_id
        INNER JOIN device_events AS d
            ON d.trace = l.trace AND d.event_id = l.event_id
        LEFT JOIN collectives AS c ON c.trace = d.trace AND c.event_id = d.event_id
        WHERE m.is_stage
            AND d.class IN ('compute', 'graph', 'comm')
            AND d.dur_ns IS NOT NULL
            AND (c.event_id IS NULL OR c.collective NOT IN ('send', 'recv', 'send_recv'))
    ),

    staged_ranks AS (
        SELECT DISTINCT trace, rank
        FROM stage_work
    ),

    work AS (
        SELECT 'all' AS part, trace, rank, device, start_ns, end_ns
        FROM busy_intervals
        WHERE class IN ('compute', 'graph')
        UNION ALL
        SELECT 'all', trace, rank, device, ts_ns, ts_ns + dur_ns
        FROM collectives
        WHERE device IS NOT NULL
            AND dur_ns IS NOT NULL
            AND collective NOT IN ('send', 'recv', 'send_recv')
        UNION ALL
        SELECT 'stage', trace, rank, device, start_ns, end_ns
        FROM stage_work
    ),

    -- Disjoint spans of each device, and how long it was busy before each of them.
    merged AS (
        SELECT
            part, trace, rank, device,
            unnest(interval_union(array_agg({start_ns: start_ns, end_ns: end_ns}))) AS span
        FROM work
        GROUP BY part, trace, rank, device
    ),

    spans AS (
        SELECT
            part, trace, rank, device, span.start_ns AS start_ns, span.end_ns AS end_ns,
            sum(span.end_ns - span.start_ns) OVER (
                PARTITION BY part, trace, rank, device ORDER BY span.start_ns
            ) - (span.end_ns - span.start_ns) AS before_ns
        FROM merged
    ),

    -- Where there are no stages, all is of the pipeline.
    parts AS (
        SELECT trace, rank, device, 'all' AS part
        FROM work
        GROUP BY trace, rank, device
        UNION ALL
        SELECT DISTINCT w.trace, w.rank, w.device, 'stage'
        FROM work AS w
        INNER JOIN staged_ranks AS s ON s.trace = w.trace AND s.rank = w.rank
    ),

    device_windows AS (
        SELECT
            w.trace, w.rank, w.step, w.method, w.start_ns, w.end_ns,
            coalesce(d.device, -1) AS device_key,
            coalesce(d.part, 'all') AS part
        FROM windows AS w
        LEFT JOIN parts AS d ON d.trace = w.trace AND d.rank = w.rank
    ),

    keyed AS (
        SELECT part, trace, rank, coalesce(device, -1) AS device_key, start_ns, end_ns, before_ns
        FROM spans
    ),

    -- Busy time up to the start and up to the end of each window; their difference is inside it.
    busy AS (
        SELECT
            w.trace, w.rank, w.step, w.method, w.start_ns, w.end_ns, w.device_key, w.part,
            coalesce(e.before_ns + least(w.end_ns, e.end_ns) - e.start_ns, 0)
                - coalesce(s.before_ns + least(w.start_ns, s.end_ns) - s.start_ns, 0) AS busy_ns
        FROM device_windows AS w
        ASOF LEFT JOIN keyed AS s
            ON s.trace = w.trace AND s.rank = w.rank AND s.device_key = w.device_key
            AND s.part = w.part AND s.start_ns <= w.start_ns
        ASOF LEFT JOIN keyed AS e
            ON e.trace = w.trace AND e.rank = w.rank AND e.device_key = w.device_key
            AND e.part = w.part AND e.start_ns <= w.end_ns
    ),

    per_device AS (
        SELECT
            trace, rank, step, method, start_ns, end_ns, device_key,
            sum(busy_ns) FILTER (WHERE part = 'all') AS busy_ns,
            sum(busy_ns) FILTER (WHERE part = 'all')
                - coalesce(sum(busy_ns) FILTER (WHERE part = 'stage'), sum(busy_ns) FILTER (WHERE part = 'all'))
                AS beside_ns
        FROM busy
        GROUP BY trace, rank, step, method, start_ns, end_ns, device_key
    ),

    per_step AS (
        SELECT
            trace, rank, method, start_ns,
            avg(end_ns - start_ns - beside_ns) AS step_ns,
            avg(end_ns - start_ns - busy_ns) AS bubble_ns
        FROM per_device
        GROUP BY trace, rank, step, method, start_ns, end_ns
    ),

    per_rank AS (
        SELECT
            trace, rank, method,
            avg(bubble_ns / nullif(step_ns, 0) ORDER BY start_ns) AS bubble_ratio,
            sum(bubble_ns ORDER BY start_ns) AS bubble_ns,
            sum(step_ns ORDER BY start_ns) AS step_ns
        FROM per_step
        GROUP BY trace, rank, method
    )

SELECT
    r.trace, r.rank, r.method, s.rank IS NOT NULL AS is_staged, r.bubble_ratio, r.bubble_ns, r.step_ns
FROM per_rank AS r
LEFT JOIN staged_ranks AS s ON s.trace = r.trace AND s.rank = r.rank
