-- @view     step_timeline
-- @summary  One step on the devices of all ranks, to be drawn: the step whose time is nearest the
--           median, or the whole trace where it has no steps.
-- @requires device_events _drawn_events
-- @reads    collectives
-- @null     no device event lies in the step
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   step BIGINT dim - | Step; NULL for the whole trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   device BIGINT dim - | Accelerator.
-- @column   lane VARCHAR dim - | compute, comm or copy.
-- @column   start_us DOUBLE dim us | Start, since the first start of the step over all ranks.
-- @column   dur_us DOUBLE value us | Duration.
-- @column   label VARCHAR value - | Kind of the call or name of the event.
-- @column   message_bytes BIGINT value bytes | Message size of the call.
-- @caveat   Made to be looked at: of a step of more than 50,000 events the longest are here, and
--           step_short_events says when the others ran. The metrics do not read it.
-- @source   the event tables; the clocks of ranks are aligned where one is further off than its
--           uncertainty and what is compared (clock_offsets.taken_away)
SELECT
    e.trace, e.step, e.rank, e.device, e.lane,
    (e.ts_ns - e.window_ns) / 1e3 AS start_us,
    e.dur_ns / 1e3 AS dur_us,
    CASE WHEN length(coalesce(c.collective, e.name)) > 80
        THEN left(coalesce(c.collective, e.name), 79) || '…'
        ELSE coalesce(c.collective, e.name)
    END AS label,
    c.message_bytes
FROM _drawn_events AS e
LEFT JOIN collectives AS c ON c.trace = e.trace AND c.event_id = e.event_id
WHERE e.is_span
ORDER BY e.trace, e.rank, e.device, e.lane, e.ts_ns, e.event_id
