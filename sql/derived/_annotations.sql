-- @derived  _annotations
-- @partition rank
-- @summary  The annotations of each rank, and what they or the annotations around them state:
--           phase, operation of FSDP, layer.
-- @requires host_ranges
-- @reads    _stated_ranges
-- @column   source VARCHAR value - | Profiler.
-- @column   rank BIGINT value - | Global rank.
-- @column   event_id BIGINT value - | The event.
-- @column   parent_event_id BIGINT value - | Innermost annotation around it.
-- @column   ts_ns BIGINT value ns | Start.
-- @column   end_ns BIGINT value ns | End.
-- @column   fsdp VARCHAR value - | Operation of FSDP that its name states.
-- @column   layer VARCHAR value - | Layer that its name states.
-- @column   phase_around VARCHAR value - | Phase that it or an annotation around it states.
-- @column   layer_around VARCHAR value - | Layer likewise.
-- @column   module_around VARCHAR value - | Module likewise.
-- @column   fsdp_event_id BIGINT value - | Innermost range of FSDP: itself, or around it.
-- @source   metrics 2.H
WITH RECURSIVE
    annotations AS MATERIALIZED (
        SELECT
            r.source, r.rank, r.event_id, r.parent_event_id, r.ts_ns, r.ts_ns + r.dur_ns AS end_ns,
            s.phase, s.fsdp, s.module, s.layer
        FROM host_ranges AS r
        LEFT JOIN _stated_ranges AS s ON s.event_id = r.event_id
        WHERE r.kind = 'annotation' AND s.is_named IS NOT FALSE
    ),

    -- From the outermost inwards: what one does not state, the one around it does.
    stated AS (
        SELECT
            event_id, phase, layer, module,
            CASE WHEN fsdp IS NOT NULL THEN event_id END AS fsdp_event_id,
            1 AS depth
        FROM annotations
        WHERE parent_event_id IS NULL
        UNION ALL
        SELECT
            n.event_id,
            -- What stands inside an optimizer is of it, whatever its name.
            CASE
                WHEN s.phase IN ('optimizer', 'zero_grad', 'data_loading') THEN s.phase
                ELSE coalesce(n.phase, s.phase)
            END,
            coalesce(n.layer, s.layer),
            coalesce(n.module, s.module),
            CASE WHEN n.fsdp IS NOT NULL THEN n.event_id ELSE s.fsdp_event_id END,
            s.depth + 1
        FROM annotations AS n
        INNER JOIN stated AS s ON s.event_id = n.parent_event_id
        -- A trace may nest as deep as it likes; programs do not.
        WHERE s.depth < 256
    )

SELECT
    a.source, a.rank, a.event_id, a.parent_event_id, a.ts_ns, a.end_ns, a.fsdp, a.layer,
    s.phase AS phase_around,
    s.layer AS layer_around,
    s.module AS module_around,
    s.fsdp_event_id
FROM annotations AS a
LEFT JOIN stated AS s ON s.event_id = a.event_id
