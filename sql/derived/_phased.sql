-- @derived  _phased
-- @partition rank
-- @summary  Launched device events with the phase whose window on the host launched them, by a
--           thread that trains; rest for all others.
-- @requires _launched _threads
-- @reads    phases
-- @column   source VARCHAR value - | Profiler.
-- @column   rank BIGINT value - | Global rank.
-- @column   event_id BIGINT value - | The event.
-- @column   device BIGINT value - | Accelerator.
-- @column   class VARCHAR value - | Class.
-- @column   start_ns BIGINT value ns | Start on the device.
-- @column   end_ns BIGINT value ns | End on the device.
-- @column   step BIGINT value - | Step that launched it.
-- @column   range_event_id BIGINT value - | Innermost annotation around the call.
-- @column   phase VARCHAR value - | Phase that launched it.
-- @source   metrics 2.H
WITH
    windowed AS (
        SELECT
            l.source, l.rank, l.event_id, l.device, l.class, l.start_ns, l.end_ns, l.step, l.range_event_id,
            t.tid AS training_tid,
            CASE WHEN l.launch_ts_ns < p.ts_ns + p.dur_ns THEN p.phase END AS phase
        FROM _launched AS l
        LEFT JOIN _threads AS t
            ON t.source = l.source AND t.rank = l.rank
            AND t.pid = l.pid AND t.tid = l.tid
            AND (t.is_main OR t.has_backward)
        ASOF LEFT JOIN phases AS p
            ON p.source = l.source AND p.rank = l.rank AND p.ts_ns <= l.launch_ts_ns
    )

SELECT
    source, rank, event_id, device, class, start_ns, end_ns, step, range_event_id,
    CASE WHEN training_tid IS NULL THEN 'rest' ELSE coalesce(phase, 'rest') END AS phase
FROM windowed
