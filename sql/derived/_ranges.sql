-- @derived  _ranges
-- @partition rank
-- @summary  The ranges of each rank, and the phase that they or the annotations around them state.
-- @requires host_ranges
-- @reads    _annotations _stated_ranges
-- @column   source VARCHAR value - | Profiler.
-- @column   rank BIGINT value - | Global rank.
-- @column   event_id BIGINT value - | The event.
-- @column   kind VARCHAR value - | annotation or operator.
-- @column   parent_event_id BIGINT value - | Innermost annotation around it.
-- @column   pid BIGINT value - | Process.
-- @column   tid BIGINT value - | Thread.
-- @column   ts_ns BIGINT value ns | Start.
-- @column   end_ns BIGINT value ns | End.
-- @column   phase VARCHAR value - | Phase that its name states.
-- @column   phase_around VARCHAR value - | Phase that it or an annotation around it states.
-- @source   metrics 2.H
SELECT
    r.source, r.rank, r.event_id, r.kind, r.parent_event_id, r.pid, r.tid, r.ts_ns,
    r.ts_ns + r.dur_ns AS end_ns,
    s.phase,
    a.phase_around
FROM host_ranges AS r
LEFT JOIN _stated_ranges AS s ON s.event_id = r.event_id
LEFT JOIN _annotations AS a
    ON a.event_id = CASE r.kind WHEN 'annotation' THEN r.event_id ELSE r.parent_event_id END
WHERE s.is_named IS NOT FALSE
