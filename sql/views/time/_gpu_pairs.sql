-- @view     _gpu_pairs
-- @summary  What the devices of two traces do with their time side by side: of each rank, and as
--           the mean over ranks (is_mean).
-- @requires _run_pairs gpu_timeline gpu_timeline_by_rank
-- @caveat   The unit is a step where both traces have steps, else the run; judged_pct is the change
--           of the time of a unit, effect_pct that of the total time of a unit of the base. place
--           is the order of the kinds.
WITH
    timelines AS (
        SELECT trace, FALSE AS is_mean, rank, type, time_ms, share_pct
        FROM gpu_timeline_by_rank
        UNION ALL
        SELECT trace, TRUE, NULL, type, time_ms, share_pct
        FROM gpu_timeline
    ),

    sides AS (
        SELECT p.base, p.test, TRUE AS is_base, t.is_mean, t.rank, t.type, t.time_ms, t.share_pct
        FROM _run_pairs AS p
        INNER JOIN timelines AS t ON t.trace = p.base
        UNION ALL
        SELECT p.base, p.test, FALSE, t.is_mean, t.rank, t.type, t.time_ms, t.share_pct
        FROM _run_pairs AS p
        INNER JOIN timelines AS t ON t.trace = p.test
    ),

    paired AS (
        SELECT
            base, test, is_mean, rank, type,
            max(time_ms) FILTER (WHERE is_base) AS base_time_ms,
            max(time_ms) FILTER (WHERE NOT is_base) AS test_time_ms,
            max(share_pct) FILTER (WHERE is_base) AS base_pct,
            max(share_pct) FILTER (WHERE NOT is_base) AS test_pct
        FROM sides
        GROUP BY base, test, is_mean, rank, type
    ),

    -- Each run by its own number of steps. The mean over ranks is of no rank.
    per_unit AS (
        SELECT
            p.base, p.test, p.is_mean, p.rank, p.type, p.base_time_ms, p.test_time_ms, p.base_pct,
            p.test_pct, u.is_stepped, u.is_alike,
            p.base_time_ms / u.base_units AS base_unit_ms,
            p.test_time_ms / u.test_units AS test_unit_ms,
            o.time_ms / u.base_units AS total_ms
        FROM paired AS p
        INNER JOIN _run_pairs AS u ON u.base = p.base AND u.test = p.test
        LEFT JOIN timelines AS o
            ON o.trace = p.base AND o.rank IS NOT DISTINCT FROM p.rank AND o.type = 'total_time'
    )

SELECT
    base, test, is_mean, rank, type, base_time_ms, test_time_ms, base_pct, test_pct, is_stepped,
    is_alike, base_unit_ms, test_unit_ms,
    CASE
        WHEN base_time_ms = 0 AND test_time_ms = 0 THEN 0
        ELSE 100 * (test_time_ms - base_time_ms) / nullif(base_time_ms, 0)
    END AS change_pct,
    CASE
        WHEN base_unit_ms = 0 AND test_unit_ms = 0 THEN 0
        ELSE 100 * (test_unit_ms - base_unit_ms) / nullif(base_unit_ms, 0)
    END AS judged_pct,
    100 * (test_unit_ms - base_unit_ms) / nullif(total_ms, 0) AS effect_pct,
    list_position([
        'computation_time', 'exposed_comm_time', 'exposed_memcpy_time', 'exposed_graph_time',
        'busy_time', 'idle_time', 'total_time', 'total_comm_time', 'total_memcpy_time'
    ], type) AS place
FROM per_unit
