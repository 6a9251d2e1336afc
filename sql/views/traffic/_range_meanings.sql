-- @view     _range_meanings
-- @summary  Annotations on the host that name a parallel dimension or a stage of a pipeline, and
--           those inside them.
-- @materialize session
-- @partition rank
-- @requires host_ranges host_events
-- @reads    range_patterns
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   event_id BIGINT dim - | The annotation.
-- @column   dim VARCHAR value - | dp, tp, pp, ep or cp: what the innermost of the annotation and
--           those around it names; NULL for none.
-- @column   is_stage BOOLEAN value - | Whether it is, or lies in, a stage of a pipeline.
-- @caveat   A stage names no dimension: what communicates in it may be of any.
-- @source   metrics 2.C traffic_distribution (defect D30: words, so that ProfilerStep holds no ep),
--           2.E pipeline_bubble_ratio (defect D44)
WITH RECURSIVE
    annotations AS (
        SELECT r.trace, r.rank, r.event_id, r.parent_event_id, h.name
        FROM host_ranges AS r
        INNER JOIN host_events AS h
            ON h.trace = r.trace AND h.event_id = r.event_id AND h.rank IS NOT DISTINCT FROM r.rank
        WHERE r.kind = 'annotation'
    ),

    names AS (
        SELECT DISTINCT name
        FROM annotations
    ),

    -- tensor_parallel, Tensor-Parallel and `tensor parallel: 3` are the same words.
    worded AS (
        SELECT name, ' ' || trim(regexp_replace(lower(name), '[^a-z0-9]+', ' ', 'g')) || ' ' AS words
        FROM names
    ),

    meanings AS (
        SELECT w.name, p.purpose, p.label
        FROM worded AS w
        INNER JOIN range_patterns AS p
            ON p.purpose IN ('dimension', 'stage') AND w.words LIKE p.pattern
        QUALIFY row_number() OVER (
            PARTITION BY w.name, p.purpose ORDER BY length(p.pattern) DESC, p.pattern
        ) = 1
    ),

    said AS (
        SELECT
            name,
            bool_or(purpose = 'stage') AS is_stage,
            CASE WHEN NOT bool_or(purpose = 'stage') THEN max(label) END AS dim
        FROM meanings
        GROUP BY name
    ),

    named AS (
        SELECT
            a.trace, a.rank, a.event_id, a.parent_event_id, s.dim, coalesce(s.is_stage, FALSE) AS is_stage
        FROM annotations AS a
        LEFT JOIN said AS s ON s.name = a.name
        -- Where no name means anything there is nothing to follow.
        WHERE EXISTS (SELECT 1 FROM said)
    ),

    -- What an annotation and those around it say, and the one further out: each pass doubles how
    -- many that are, so that deep nesting costs few of them.
    stated AS (
        SELECT
            trace, rank, event_id, parent_event_id AS outer_id, dim, is_stage, 0 AS step,
            TRUE AS has_more
        FROM named
        UNION ALL
        SELECT
            s.trace, s.rank, s.event_id, o.outer_id, coalesce(s.dim, o.dim),
            s.is_stage OR coalesce(o.is_stage, FALSE), s.step + 1,
            max(s.outer_id) OVER () IS NOT NULL
        FROM stated AS s
        LEFT JOIN stated AS o ON o.trace = s.trace AND o.event_id = s.outer_id
        -- A parent begins before its children, so it ends; 24 steps are 16 million ranges.
        WHERE s.has_more AND s.step < 24
    )

SELECT trace, rank, event_id, dim, is_stage
FROM stated
WHERE NOT has_more AND (dim IS NOT NULL OR is_stage)
