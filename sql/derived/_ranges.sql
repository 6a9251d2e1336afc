-- @derived  _ranges
-- @partition rank
-- @summary  The ranges of each rank with their names, and what they or the annotations around them
--           state: phase, operation of FSDP, layer.
-- @requires host_ranges host_events
-- @reads    range_patterns
-- @column   source VARCHAR value - | Profiler.
-- @column   rank BIGINT value - | Global rank.
-- @column   event_id BIGINT value - | The event.
-- @column   kind VARCHAR value - | annotation or operator.
-- @column   parent_event_id BIGINT value - | Innermost annotation around it.
-- @column   pid BIGINT value - | Process.
-- @column   tid BIGINT value - | Thread.
-- @column   ts_ns BIGINT value ns | Start.
-- @column   end_ns BIGINT value ns | End.
-- @column   name VARCHAR value - | Name.
-- @column   phase VARCHAR value - | Phase that its name states.
-- @column   fsdp VARCHAR value - | Operation of FSDP that its name states.
-- @column   module VARCHAR value - | Module that a range of FSDP names.
-- @column   layer VARCHAR value - | Layer that its name states.
-- @column   phase_around VARCHAR value - | Phase that it or an annotation around it states.
-- @column   layer_around VARCHAR value - | Layer likewise.
-- @column   module_around VARCHAR value - | Module likewise.
-- @column   fsdp_event_id BIGINT value - | Innermost range of FSDP: itself, or around it.
-- @source   metrics 2.H
WITH RECURSIVE
    ranges AS (
        SELECT
            r.source, r.rank, r.event_id, r.kind, r.parent_event_id, r.pid, r.tid, r.ts_ns,
            r.ts_ns + r.dur_ns AS end_ns, h.name
        FROM host_ranges AS r
        INNER JOIN host_events AS h ON h.event_id = r.event_id
    ),

    names AS (
        SELECT DISTINCT name
        FROM ranges
    ),

    meanings AS (
        SELECT n.name, p.purpose, p.label
        FROM names AS n
        INNER JOIN range_patterns AS p
            ON p.purpose IN ('phase', 'fsdp') AND n.name LIKE p.pattern
        QUALIFY row_number() OVER (
            PARTITION BY n.name, p.purpose ORDER BY length(p.pattern) DESC, p.pattern
        ) = 1
    ),

    -- Once for each name, not for each range.
    said AS MATERIALIZED (
        SELECT
            n.name,
            phase.label AS phase,
            fsdp.label AS fsdp,
            -- FSDP says the module in parentheses, or behind a `for`; the root has none.
            CASE WHEN fsdp.label IS NOT NULL THEN nullif(trim(coalesce(
                nullif(regexp_extract(n.name, '\(([^()]*)\)', 1), ''),
                regexp_extract(n.name, ' for (.*)$', 1)
            )), '') END AS module,
            -- layers.3, blocks.3, h.3, layer_3: what the modules of a stack are called.
            nullif(regexp_extract(
                n.name, '(?:^|[^A-Za-z0-9_.])((?:[A-Za-z0-9_]+\.)*(?:layers?|blocks?|h)[._]\d+)', 1
            ), '') AS layer
        FROM names AS n
        LEFT JOIN meanings AS phase ON phase.name = n.name AND phase.purpose = 'phase'
        LEFT JOIN meanings AS fsdp ON fsdp.name = n.name AND fsdp.purpose = 'fsdp'
    ),

    named AS (
        SELECT
            r.source, r.rank, r.event_id, r.kind, r.parent_event_id, r.pid, r.tid, r.ts_ns, r.end_ns,
            r.name, s.phase, s.fsdp, s.module, s.layer
        FROM ranges AS r
        INNER JOIN said AS s ON s.name = r.name
    ),

    -- Annotations from the outermost inwards: what one does not state, the one around it does.
    stated AS (
        SELECT
            event_id, phase, layer, module,
            CASE WHEN fsdp IS NOT NULL THEN event_id END AS fsdp_event_id,
            1 AS depth
        FROM named
        WHERE kind = 'annotation' AND parent_event_id IS NULL
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
        FROM named AS n
        INNER JOIN stated AS s ON s.event_id = n.parent_event_id
        -- A trace may nest as deep as it likes; programs do not.
        WHERE n.kind = 'annotation' AND s.depth < 256
    )

SELECT
    n.source, n.rank, n.event_id, n.kind, n.parent_event_id, n.pid, n.tid, n.ts_ns, n.end_ns,
    n.name, n.phase, n.fsdp, n.module, n.layer,
    s.phase AS phase_around,
    s.layer AS layer_around,
    s.module AS module_around,
    s.fsdp_event_id
FROM named AS n
LEFT JOIN stated AS s
    ON s.event_id = CASE n.kind WHEN 'annotation' THEN n.event_id ELSE n.parent_event_id END
