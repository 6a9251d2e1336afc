-- @derived  phases
-- @partition rank
-- @summary  Windows of training phases on the host of each rank: they do not overlap.
-- @requires _ranges _threads
-- @reads    steps
-- @caveat   optimizer, zero_grad and data_loading are the ranges that say so, on a thread that trains. Between them the operators of the main thread and those of autograd follow each other: a run of operators of autograd, from the first start to the last end, is backward; a run of others that comes before a backward of the same step is forward. What is left of a step is the rest.
-- @source   metrics 2.H (defect D58: nested operators are not added up)
WITH
    training AS (
        SELECT
            r.source, r.rank, r.kind, r.ts_ns, r.end_ns, s.step,
            least(r.end_ns, s.ts_ns + s.dur_ns) AS clipped_ns,
            CASE
                WHEN r.phase_around IN ('optimizer', 'zero_grad', 'data_loading') THEN r.phase_around
                -- On a thread of autograd, what calls itself forward is computed again for the backward.
                WHEN r.kind = 'annotation' THEN CASE WHEN t.is_main OR r.phase <> 'forward' THEN r.phase END
                WHEN r.phase IN ('backward', 'backward_end') THEN r.phase
                WHEN NOT t.is_main THEN 'backward'
                ELSE coalesce(r.phase_around, 'forward')
            END AS stated
        FROM _ranges AS r
        INNER JOIN _threads AS t
            ON t.source = r.source AND t.rank = r.rank
            AND t.pid IS NOT DISTINCT FROM r.pid AND t.tid IS NOT DISTINCT FROM r.tid
        ASOF LEFT JOIN steps AS s
            ON s.source = r.source AND s.rank = r.rank AND s.ts_ns <= r.ts_ns
        WHERE t.is_main OR t.has_backward
    ),

    -- Without steps the whole trace is one.
    stepped AS (
        SELECT source, rank FROM steps GROUP BY source, rank
    ),

    within AS (
        SELECT
            t.source, t.rank, t.step, t.stated, t.ts_ns,
            coalesce(t.clipped_ns, t.end_ns) AS end_ns,
            -- What of the backward comes next.
            first_value(CASE WHEN t.stated IN ('backward', 'backward_end') THEN t.stated END IGNORE NULLS) OVER (
                PARTITION BY t.source, t.rank, t.step ORDER BY t.ts_ns, t.end_ns DESC, t.stated
                ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
            ) AS next_backward
        FROM training AS t
        LEFT JOIN stepped AS s ON s.source = t.source AND s.rank = t.rank
        WHERE t.stated IS NOT NULL
            AND (s.rank IS NULL OR t.ts_ns < t.clipped_ns)
    ),

    items AS (
        SELECT
            source, rank, step, ts_ns, end_ns,
            CASE
                WHEN stated = 'backward_end' OR stated = 'forward' AND next_backward = 'backward_end'
                    THEN 'backward'
                ELSE stated
            END AS phase
        FROM within
    ),

    last_backward AS (
        SELECT source, rank, step, max(ts_ns) AS ts_ns
        FROM items
        WHERE phase = 'backward'
        GROUP BY source, rank, step
    ),

    relevant AS (
        SELECT i.source, i.rank, i.step, i.phase, i.ts_ns, i.end_ns
        FROM items AS i
        INNER JOIN last_backward AS b
            ON b.source = i.source AND b.rank = i.rank AND b.step IS NOT DISTINCT FROM i.step
        WHERE i.phase <> 'forward' OR i.ts_ns < b.ts_ns
        UNION ALL
        SELECT i.source, i.rank, i.step, i.phase, i.ts_ns, i.end_ns
        FROM items AS i
        LEFT JOIN last_backward AS b
            ON b.source = i.source AND b.rank = i.rank AND b.step IS NOT DISTINCT FROM i.step
        WHERE b.rank IS NULL AND i.phase <> 'forward'
    ),

    changes AS (
        SELECT
            source, rank, step, phase, ts_ns, end_ns,
            CASE WHEN phase IS DISTINCT FROM lag(phase) OVER (
                PARTITION BY source, rank, step ORDER BY ts_ns, end_ns DESC, phase
            ) THEN 1 ELSE 0 END AS begins
        FROM relevant
    ),

    runs AS (
        SELECT
            source, rank, step, phase, ts_ns, end_ns,
            sum(begins) OVER (
                PARTITION BY source, rank, step ORDER BY ts_ns, end_ns DESC, phase
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS run
        FROM changes
    ),

    spans AS (
        -- Ranges that say a phase are what they are; operators are of one run from first to last.
        SELECT source, rank, step, phase, ts_ns AS start_ns, end_ns
        FROM relevant
        WHERE phase IN ('optimizer', 'zero_grad', 'data_loading')
        UNION ALL
        SELECT source, rank, step, phase, min(ts_ns), max(end_ns)
        FROM runs
        WHERE phase IN ('forward', 'backward')
        GROUP BY source, rank, step, phase, run
    ),

    lists AS (
        SELECT
            source, rank, step,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE phase = 'optimizer'), []) AS optimizer,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE phase = 'zero_grad'), []) AS zero_grad,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE phase = 'data_loading'), []) AS data_loading,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE phase = 'backward'), []) AS backward,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE phase = 'forward'), []) AS forward
        FROM spans
        GROUP BY source, rank, step
    ),

    -- No instant is of two phases: what is stated goes before what is concluded.
    windows AS (
        SELECT source, rank, step, 'optimizer' AS phase, unnest(interval_union(optimizer)) AS span
        FROM lists
        UNION ALL
        SELECT source, rank, step, 'zero_grad', unnest(interval_subtract(zero_grad, optimizer))
        FROM lists
        UNION ALL
        SELECT source, rank, step, 'data_loading', unnest(interval_subtract(data_loading, list_concat(optimizer, zero_grad)))
        FROM lists
        UNION ALL
        SELECT source, rank, step, 'backward', unnest(interval_subtract(backward, list_concat(list_concat(optimizer, zero_grad), data_loading)))
        FROM lists
        UNION ALL
        SELECT source, rank, step, 'forward', unnest(interval_subtract(
            forward, list_concat(list_concat(list_concat(optimizer, zero_grad), data_loading), backward)
        ))
        FROM lists
    )

SELECT
    source, rank, step, phase, span.start_ns AS ts_ns, span.end_ns - span.start_ns AS dur_ns
FROM windows
ORDER BY source, rank, ts_ns
