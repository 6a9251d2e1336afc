-- @view     step_overlap
-- @summary  What the devices of each rank do during each step: compute, communication, and both at
--           once.
-- @materialize session
-- @partition rank
-- @requires busy_intervals steps
-- @null     the steps have no durations
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   step BIGINT dim - | Step.
-- @column   step_time_ms DOUBLE value ms lower | Duration of the step.
-- @column   compute_ms DOUBLE value ms lower | Union of compute within it, mean over the devices of
--           the rank.
-- @column   comm_ms DOUBLE value ms lower | Union of communication.
-- @column   overlap_ms DOUBLE value ms | Time of both at once.
-- @column   exposed_comm_ms DOUBLE value ms lower | Communication without compute.
-- @column   overlap_ratio DOUBLE value ratio higher | overlap_ms / comm_ms; NULL without
--           communication.
-- @caveat   Steps are those of the host: what it launched before the end of a step and the device
--           runs later is in the next one.
-- @source   metrics 2.E
WITH
    lists AS (
        SELECT
            trace, rank, device,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'comm') AS comm,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'compute') AS comp
        FROM busy_intervals
        GROUP BY trace, rank, device
    ),

    pieces AS (
        SELECT trace, rank, device, 'comm' AS what, unnest(interval_union(comm)) AS span
        FROM lists
        UNION ALL
        SELECT trace, rank, device, 'compute', unnest(interval_union(comp))
        FROM lists
        UNION ALL
        SELECT trace, rank, device, 'both', unnest(interval_intersect(comm, comp))
        FROM lists
    ),

    -- Disjoint spans, and how much of its kind lies before each of them.
    spans AS (
        SELECT
            trace, rank, coalesce(device, -1) AS device_key, what,
            span.start_ns AS start_ns, span.end_ns AS end_ns,
            sum(span.end_ns - span.start_ns) OVER (
                PARTITION BY trace, rank, device, what ORDER BY span.start_ns
            ) - (span.end_ns - span.start_ns) AS before_ns
        FROM pieces
    ),

    windows AS (
        SELECT
            s.trace, s.rank, s.step, s.ts_ns AS start_ns, s.ts_ns + s.dur_ns AS end_ns,
            coalesce(l.device, -1) AS device_key, k.what
        FROM steps AS s
        INNER JOIN lists AS l ON l.trace = s.trace AND l.rank = s.rank
        CROSS JOIN (VALUES ('comm'), ('compute'), ('both')) AS k (what)
        WHERE s.dur_ns > 0
    ),

    -- Time up to the end of a window less time up to its start.
    inside AS (
        SELECT
            w.trace, w.rank, w.step, w.device_key, w.what, w.start_ns, w.end_ns,
            e.before_ns + least(w.end_ns, e.end_ns) - e.start_ns
                - coalesce(s.before_ns + least(w.start_ns, s.end_ns) - s.start_ns, 0) AS time_ns
        FROM windows AS w
        ASOF LEFT JOIN spans AS s
            ON s.trace = w.trace AND s.rank = w.rank AND s.device_key = w.device_key
            AND s.what = w.what AND s.start_ns <= w.start_ns
        ASOF LEFT JOIN spans AS e
            ON e.trace = w.trace AND e.rank = w.rank AND e.device_key = w.device_key
            AND e.what = w.what AND e.start_ns <= w.end_ns
    ),

    times AS (
        SELECT
            trace, rank, step, start_ns, end_ns, count(DISTINCT device_key) AS device_count,
            coalesce(sum(time_ns) FILTER (WHERE what = 'compute'), 0) AS compute_ns,
            coalesce(sum(time_ns) FILTER (WHERE what = 'comm'), 0) AS comm_ns,
            coalesce(sum(time_ns) FILTER (WHERE what = 'both'), 0) AS both_ns
        FROM inside
        GROUP BY trace, rank, step, start_ns, end_ns
    )

SELECT
    trace, rank, step,
    (end_ns - start_ns) / 1e6 AS step_time_ms,
    compute_ns / 1e6 / device_count AS compute_ms,
    comm_ns / 1e6 / device_count AS comm_ms,
    both_ns / 1e6 / device_count AS overlap_ms,
    (comm_ns - both_ns) / 1e6 / device_count AS exposed_comm_ms,
    CAST(both_ns AS DOUBLE) / nullif(comm_ns, 0) AS overlap_ratio
FROM times
ORDER BY trace, rank, start_ns, step
