-- @derived  _fsdp_ranges
-- @partition rank
-- @summary  Ranges of FSDP with their step, layer and own time: that of the ranges of FSDP inside
--           them is theirs.
-- @requires _annotations
-- @reads    steps
-- @column   source VARCHAR value - | Profiler.
-- @column   rank BIGINT value - | Global rank.
-- @column   event_id BIGINT value - | The event.
-- @column   ts_ns BIGINT value ns | Start.
-- @column   end_ns BIGINT value ns | End.
-- @column   operation VARCHAR value - | Operation.
-- @column   layer VARCHAR value - | Module; NULL for the root.
-- @column   step BIGINT value - | Step in which it begins.
-- @column   own_ns BIGINT value ns | Time without the ranges of FSDP inside it.
-- @source   metrics 2.H (defect D59: nested ranges are not added up)
WITH
    ranges AS (
        SELECT
            r.source, r.rank, r.event_id, r.ts_ns, r.end_ns, r.fsdp AS operation, r.module_around AS layer,
            p.fsdp_event_id AS parent_event_id
        FROM _annotations AS r
        LEFT JOIN _annotations AS p ON p.event_id = r.parent_event_id
        -- One that is nested too deep to be followed is part of what is around it.
        WHERE r.fsdp IS NOT NULL AND r.fsdp_event_id IS NOT NULL
    ),

    inner_times AS (
        SELECT parent_event_id, sum(end_ns - ts_ns) AS inner_ns
        FROM ranges
        WHERE parent_event_id IS NOT NULL
        GROUP BY parent_event_id
    )

SELECT
    r.source, r.rank, r.event_id, r.ts_ns, r.end_ns, r.operation, r.layer,
    CASE WHEN r.ts_ns < s.ts_ns + s.dur_ns THEN s.step END AS step,
    CAST(greatest(r.end_ns - r.ts_ns - coalesce(i.inner_ns, 0), 0) AS BIGINT) AS own_ns
FROM ranges AS r
LEFT JOIN inner_times AS i ON i.parent_event_id = r.event_id
ASOF LEFT JOIN steps AS s
    ON s.source = r.source AND s.rank = r.rank AND s.ts_ns <= r.ts_ns
