-- @derived  _stated_ranges
-- @partition rank
-- @summary  Ranges of each rank whose names state something: a phase, an operation of FSDP, a
--           layer. Those without a name are listed too, and state nothing.
-- @requires host_events
-- @reads    range_patterns
-- @column   event_id BIGINT value - | The event.
-- @column   is_named BOOLEAN value - | Whether it has a name.
-- @column   phase VARCHAR value - | Phase that its name states.
-- @column   fsdp VARCHAR value - | Operation of FSDP that its name states.
-- @column   module VARCHAR value - | Module that a range of FSDP names.
-- @column   layer VARCHAR value - | Layer that its name states.
-- @source   metrics 2.H
WITH
    names AS (
        SELECT DISTINCT name
        FROM host_events
        WHERE class IN ('host_op', 'host_annotation')
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
    said AS (
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

    -- Most names state nothing, and their ranges need no row.
    stating AS MATERIALIZED (
        SELECT name, phase, fsdp, module, layer
        FROM said
        WHERE name IS NULL OR phase IS NOT NULL OR fsdp IS NOT NULL OR layer IS NOT NULL
    )

SELECT
    h.event_id, h.name IS NOT NULL AS is_named, s.phase, s.fsdp, s.module, s.layer
FROM host_events AS h
INNER JOIN stating AS s ON s.name IS NOT DISTINCT FROM h.name
WHERE h.class IN ('host_op', 'host_annotation')
