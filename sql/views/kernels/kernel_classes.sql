-- @view     kernel_classes
-- @summary  What each kernel does: one class for every name, by the names of kernels and of the
--           operators that launch them.
-- @requires kernel_times
-- @reads    kernel_patterns _category_sums
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   source VARCHAR dim - | Profiler.
-- @column   class VARCHAR dim - | compute or comm.
-- @column   name VARCHAR dim - | Name of the kernel as recorded.
-- @column   op_name VARCHAR dim - | Operator that launched it; NULL without one.
-- @column   kernel_class VARCHAR value - | Class of kernel_patterns, or other: no pattern matches.
-- @column   library VARCHAR value - | Library that the name comes from; NULL where nothing says
--           one.
-- @column   judged_by VARCHAR value - | What gave the class: class (events of class comm), hlo
--           (category of XLA), kernel (name), operator (name of the operator that launches most of
--           the time of the name); NULL for other.
-- @column   is_moe BOOLEAN value - | Kernel of a mixture of experts: class moe, or a GEMM of
--           experts.
-- @column   moe_part VARCHAR value - | Of those expert (the work of the experts, as GEMMs) or
--           routing (scores, sorting, permuting and combining tokens); NULL for the others.
-- @caveat   Events of class comm are communication whatever their names; XLA's category of an
--           operation goes before its name, the name of a kernel before that of its operator.
-- @source   metrics 2.F kernel_breakdown (defects D49 to D51), formats_kineto 10
WITH
    kernels AS (
        SELECT
            trace, source, class, name, op_name, sum(dur_ns) AS dur_ns,
            -- Pointwise, two kinds of sums, and lists of tensors; not templates (triton_tem).
            name LIKE 'triton_poi_fused%' OR name LIKE 'triton_red_fused%'
                OR name LIKE 'triton_per_fused%' OR name LIKE 'triton_for_fused%' AS is_fused
        FROM kernel_times
        GROUP BY trace, source, class, name, op_name
    ),

    -- A name of XLA with two categories, from two modules, says nothing.
    categories AS (
        SELECT trace, name, min(hlo_category) AS hlo_category
        FROM _category_sums
        WHERE hlo_category IS NOT NULL
        GROUP BY trace, name
        HAVING count(DISTINCT hlo_category) = 1
    ),

    -- Each text is matched once, however many traces have it.
    texts AS (
        SELECT CASE WHEN is_fused THEN 'fused' ELSE 'kernel' END AS purpose, name AS text
        FROM kernels
        UNION
        SELECT 'moe', name
        FROM kernels
        UNION
        SELECT 'expert', name
        FROM kernels
        UNION
        SELECT 'operator', op_name
        FROM kernels
        UNION
        SELECT 'hlo', hlo_category
        FROM categories
        UNION
        SELECT 'hlo', name
        FROM kernels
        WHERE source = 'xla'
    ),

    -- The words behind `fused`, without the number at the end.
    fused_words AS (
        SELECT text, unnest(string_split(replace(lower(text), 'triton_poi_fused', ''), '_')) AS word
        FROM texts
        WHERE purpose = 'fused' AND text LIKE 'triton_poi_fused%'
    ),

    moved AS (
        SELECT w.text
        FROM fused_words AS w
        LEFT JOIN kernel_patterns AS p ON p.purpose = 'movement' AND p.pattern = w.word
        WHERE w.word <> '' AND TRY_CAST(w.word AS BIGINT) IS NULL
        GROUP BY w.text
        HAVING bool_and(p.pattern IS NOT NULL)
    ),

    matches AS (
        SELECT
            t.purpose, t.text,
            CASE WHEN m.text IS NULL THEN p.class ELSE 'copy' END AS kernel_class,
            p.library
        FROM texts AS t
        LEFT JOIN moved AS m ON t.purpose = 'fused' AND m.text = t.text
        INNER JOIN kernel_patterns AS p
            ON p.purpose = t.purpose
            AND lower(t.text) LIKE p.pattern
            AND (p.unless IS NULL OR lower(t.text) NOT LIKE p.unless)
        QUALIFY row_number() OVER (
            PARTITION BY t.purpose, t.text
            ORDER BY p.priority, length(p.pattern) DESC, p.pattern
        ) = 1
    ),

    -- What each judge says: the category, the name as that of a kernel, as that of an HLO
    -- operation, and the operator.
    judged AS (
        SELECT
            k.trace, k.source, k.class, k.name, k.op_name, k.dur_ns,
            c.kernel_class AS category_class, c.library AS category_library,
            n.kernel_class AS name_class, n.library AS name_library,
            h.kernel_class AS hlo_class, h.library AS hlo_library,
            o.kernel_class AS operator_class, o.library AS operator_library,
            m.kernel_class IS NOT NULL AS is_expert,
            e.kernel_class IS NOT NULL AS is_expert_work
        FROM kernels AS k
        LEFT JOIN categories AS x ON k.source = 'xla' AND x.trace = k.trace AND x.name = k.name
        LEFT JOIN matches AS c ON c.purpose = 'hlo' AND c.text = x.hlo_category
        LEFT JOIN matches AS n ON n.purpose IN ('kernel', 'fused') AND n.text = k.name
        LEFT JOIN matches AS h ON h.purpose = 'hlo' AND h.text = k.name AND k.source = 'xla'
        LEFT JOIN matches AS o ON o.purpose = 'operator' AND o.text = k.op_name
        LEFT JOIN matches AS m ON m.purpose = 'moe' AND m.text = k.name
        LEFT JOIN matches AS e ON e.purpose = 'expert' AND e.text = k.name
    ),

    -- Of the operators that launch kernels of a name, the class with most of their time counts.
    votes AS (
        SELECT trace, source, class, name, operator_class, min(operator_library) AS operator_library
        FROM judged
        WHERE operator_class IS NOT NULL
        GROUP BY trace, source, class, name, operator_class
        QUALIFY row_number() OVER (
            PARTITION BY trace, source, class, name ORDER BY sum(dur_ns) DESC, operator_class
        ) = 1
    ),

    chosen AS (
        SELECT
            j.trace, j.source, j.class, j.name, j.op_name, j.is_expert, j.is_expert_work,
            j.category_class, j.category_library, j.name_class, j.name_library, j.hlo_class,
            j.hlo_library, v.operator_class, v.operator_library,
            CASE
                WHEN j.class = 'comm' THEN 'class'
                WHEN j.category_class IS NOT NULL THEN 'hlo'
                WHEN j.name_class IS NOT NULL THEN 'kernel'
                WHEN j.hlo_class IS NOT NULL THEN 'hlo'
                WHEN v.operator_class IS NOT NULL THEN 'operator'
            END AS judged_by
        FROM judged AS j
        LEFT JOIN votes AS v
            ON v.trace = j.trace AND v.source = j.source AND v.class = j.class AND v.name = j.name
    ),

    classed AS (
        SELECT
            trace, source, class, name, op_name,
            CASE judged_by
                WHEN 'class' THEN 'communication'
                WHEN 'hlo' THEN coalesce(category_class, hlo_class)
                WHEN 'kernel' THEN name_class
                WHEN 'operator' THEN operator_class
                ELSE 'other'
            END AS kernel_class,
            CASE judged_by
                WHEN 'class' THEN CASE WHEN name_class = 'communication' THEN name_library END
                WHEN 'hlo' THEN coalesce(category_library, hlo_library)
                WHEN 'kernel' THEN name_library
                WHEN 'operator' THEN operator_library
            END AS library,
            judged_by,
            is_expert AND class = 'compute' AS is_expert,
            is_expert_work
        FROM chosen
    )

SELECT
    trace, source, class, name, op_name, kernel_class, library, judged_by,
    kernel_class = 'moe' OR is_expert AS is_moe,
    CASE
        WHEN is_expert OR (kernel_class = 'moe' AND is_expert_work) THEN 'expert'
        WHEN kernel_class = 'moe' THEN 'routing'
    END AS moe_part
FROM classed
