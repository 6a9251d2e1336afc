-- @derived  phase_times
-- @partition rank
-- @summary  Host and device time of each phase in each step of a rank.
-- @requires phases
-- @reads    _phased steps
-- @source   metrics 2.H: device time is that of what a phase launched
WITH
    host AS (
        SELECT source, rank, step, phase, TRY_CAST(sum(dur_ns) AS BIGINT) AS host_ns, count(*) AS windows
        FROM phases
        GROUP BY source, rank, step, phase
    ),

    -- Ranks that train at all.
    training AS (
        SELECT DISTINCT source, rank
        FROM phases
    ),

    lengths AS (
        SELECT source, rank, step, TRY_CAST(sum(dur_ns) AS BIGINT) AS step_ns
        FROM steps
        GROUP BY source, rank, step
        UNION ALL
        -- Without steps, from the first phase to the last.
        SELECT p.source, p.rank, CAST(NULL AS BIGINT), max(p.ts_ns + p.dur_ns) - min(p.ts_ns)
        FROM phases AS p
        WHERE NOT EXISTS (SELECT 1 FROM steps AS s WHERE s.source = p.source AND s.rank = p.rank)
        GROUP BY p.source, p.rank
    ),

    rest AS (
        SELECT
            l.source, l.rank, l.step, 'rest' AS phase,
            l.step_ns - coalesce(sum(h.host_ns), 0) AS host_ns,
            CAST(NULL AS BIGINT) AS windows
        FROM lengths AS l
        INNER JOIN training AS t ON t.source = l.source AND t.rank = l.rank
        LEFT JOIN host AS h
            ON h.source = l.source AND h.rank = l.rank AND h.step IS NOT DISTINCT FROM l.step
        GROUP BY l.source, l.rank, l.step, l.step_ns
    ),

    -- Work that no step launched is of none, where there are steps.
    events AS (
        SELECT p.source, p.rank, p.step, p.phase, p.device, p.class, p.start_ns, p.end_ns
        FROM _phased AS p
        INNER JOIN training AS t ON t.source = p.source AND t.rank = p.rank
        WHERE p.step IS NOT NULL
            OR NOT EXISTS (SELECT 1 FROM steps AS s WHERE s.source = p.source AND s.rank = p.rank)
    ),

    work AS (
        SELECT
            source, rank, step, phase, device,
            interval_union(array_agg({start_ns: start_ns, end_ns: end_ns})) AS busy,
            interval_union_ns(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'comm')) AS comm_ns,
            interval_union_ns(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'compute')) AS compute_ns,
            TRY_CAST(sum(end_ns - start_ns) AS BIGINT) AS work_ns,
            count(*) AS events
        FROM events
        GROUP BY source, rank, step, phase, device
    ),

    -- In the order of a step: an instant in which the work of two phases runs is of the earlier
    -- one.
    earlier AS (
        SELECT
            w.source, w.rank, w.step, w.phase, w.device, w.busy, w.comm_ns, w.compute_ns, w.work_ns, w.events,
            flatten(array_agg(o.busy)) AS before
        FROM work AS w
        LEFT JOIN work AS o
            ON o.source = w.source AND o.rank = w.rank AND o.step IS NOT DISTINCT FROM w.step
            AND o.device IS NOT DISTINCT FROM w.device
            AND instr('data_loading zero_grad forward backward optimizer rest', o.phase)
                < instr('data_loading zero_grad forward backward optimizer rest', w.phase)
        GROUP BY w.source, w.rank, w.step, w.phase, w.device, w.busy, w.comm_ns, w.compute_ns, w.work_ns, w.events
    ),

    device AS (
        SELECT
            source, rank, step, phase,
            TRY_CAST(sum(interval_subtract_ns(busy, before)) AS BIGINT) AS device_ns,
            TRY_CAST(sum(interval_union_ns(busy)) AS BIGINT) AS launched_ns,
            TRY_CAST(sum(coalesce(comm_ns, 0)) AS BIGINT) AS comm_ns,
            TRY_CAST(sum(coalesce(compute_ns, 0)) AS BIGINT) AS compute_ns,
            TRY_CAST(sum(work_ns) AS BIGINT) AS work_ns,
            TRY_CAST(sum(events) AS BIGINT) AS events
        FROM earlier
        GROUP BY source, rank, step, phase
    ),

    host_times AS (
        SELECT source, rank, step, phase, host_ns, windows
        FROM host
        UNION ALL
        SELECT source, rank, step, phase, host_ns, windows
        FROM rest
    )

SELECT
    coalesce(h.source, d.source) AS source,
    coalesce(h.rank, d.rank) AS rank,
    coalesce(h.step, d.step) AS step,
    coalesce(h.phase, d.phase) AS phase,
    h.windows, h.host_ns,
    d.device_ns, d.launched_ns, d.comm_ns, d.compute_ns, d.work_ns, d.events
FROM host_times AS h
FULL OUTER JOIN device AS d
    ON d.source = h.source AND d.rank = h.rank AND d.step IS NOT DISTINCT FROM h.step AND d.phase = h.phase
ORDER BY source, rank, step, phase
