-- @derived  phases
-- @partition rank
-- @summary  Windows of training phases on the host of each rank: they do not overlap.
-- @requires _ranges _threads
-- @reads    steps
-- @check    (SELECT count(*) FROM _ranges WHERE phase IS NOT NULL OR phase_around IS NOT NULL) > 0
--           | no range says a phase
-- @caveat   optimizer, zero_grad and data_loading are the ranges that say so, on a thread that
--           trains. A run of operators of autograd, from the first start to the last end, is
--           backward. Where ranges say forward in a step (DDP, FSDP1, torchrec), these are it, and
--           each operator between them and the backward that stands beside them, in no range of its
--           own; else the operators of the main thread before a backward, from the first start to
--           the last end, unless an optimizer or data loading comes before that backward. A step
--           without a backward has the forward that ranges say. The gradient that autograd starts
--           from, ones_like right before its operators, is of the backward. What is left of a step
--           is the rest.
-- @source   metrics 2.H (defect D58: nested operators are not added up)
WITH
    training AS MATERIALIZED (
        SELECT
            r.source, r.rank, r.pid, r.tid, r.kind, r.ts_ns, r.end_ns, s.step, s.ts_ns + s.dur_ns AS step_end_ns,
            coalesce(r.parent_event_id, -1) AS parent_id,
            r.kind = 'operator' AND r.phase = 'backward' AS is_backward,
            CASE
                WHEN r.phase_around IN ('optimizer', 'zero_grad', 'data_loading') THEN r.phase_around
                WHEN r.kind = 'annotation' THEN r.phase
                WHEN r.phase IN ('backward', 'backward_end') THEN r.phase
                WHEN NOT t.is_main OR r.phase_around = 'backward' THEN 'backward'
                WHEN r.phase = 'backward_seed' THEN r.phase
                ELSE 'operator'
            END AS stated,
            t.is_main
        FROM _ranges AS r
        INNER JOIN _threads AS t
            ON t.source = r.source AND t.rank = r.rank
            AND t.pid IS NOT DISTINCT FROM r.pid AND t.tid IS NOT DISTINCT FROM r.tid
        ASOF LEFT JOIN steps AS s
            ON s.source = r.source AND s.rank = r.rank AND s.ts_ns <= r.ts_ns
        WHERE t.is_main OR t.has_backward
    ),

    -- What says forward on the main thread, and until when the autograd before it lasts there.
    -- Nothing else needs the window.
    forwards AS (
        SELECT
            source, rank, step, stated, parent_id, ts_ns, end_ns, step_end_ns,
            max(CASE WHEN is_backward THEN end_ns END) OVER (
                PARTITION BY source, rank, pid, tid ORDER BY ts_ns, end_ns DESC, kind
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS backward_until_ns
        FROM training
        WHERE is_main AND (is_backward OR stated IN ('forward', 'forward_part'))
    ),

    stating AS (
        SELECT source, rank, step, stated, parent_id, ts_ns, end_ns, step_end_ns
        FROM training
        WHERE stated NOT IN ('forward', 'forward_part')
        UNION ALL
        -- What says forward inside of autograd is computed again for the backward.
        SELECT source, rank, step, stated, parent_id, ts_ns, end_ns, step_end_ns
        FROM forwards
        WHERE stated IN ('forward', 'forward_part') AND coalesce(backward_until_ns <= ts_ns, TRUE)
    ),

    -- Without steps the whole trace is one.
    stepped AS (
        SELECT source, rank
        FROM steps
        GROUP BY source, rank
    ),

    items AS (
        SELECT
            t.source, t.rank, t.step, t.stated, t.parent_id, t.ts_ns,
            coalesce(least(t.end_ns, t.step_end_ns), t.end_ns) AS end_ns
        FROM stating AS t
        LEFT JOIN stepped AS s ON s.source = t.source AND s.rank = t.rank
        WHERE s.rank IS NULL OR t.ts_ns < t.step_end_ns
    ),

    -- What may be the gradient that autograd starts from is it where autograd follows.
    settled AS (
        SELECT
            source, rank, step, parent_id, ts_ns, end_ns,
            CASE
                WHEN stated <> 'backward_seed' THEN stated
                WHEN first_value(CASE WHEN stated <> 'backward_seed' THEN stated END IGNORE NULLS) OVER (
                    PARTITION BY source, rank, step ORDER BY ts_ns, end_ns DESC, stated
                    ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
                ) = 'backward' THEN 'backward'
                ELSE 'operator'
            END AS stated,
            row_number() OVER (
                PARTITION BY source, rank, step ORDER BY ts_ns, end_ns DESC, stated
            ) AS place
        FROM items
    ),

    -- What stands around the ranges that say forward.
    forward_parents AS (
        SELECT DISTINCT source, rank, step, parent_id
        FROM settled
        WHERE stated = 'forward'
    ),

    beside AS (
        SELECT
            i.source, i.rank, i.step, i.place, i.stated, i.ts_ns, i.end_ns,
            p.parent_id IS NOT NULL AS beside_forward
        FROM settled AS i
        LEFT JOIN forward_parents AS p
            ON p.source = i.source AND p.rank = i.rank
            AND p.step IS NOT DISTINCT FROM i.step AND p.parent_id = i.parent_id
    ),

    placed AS (
        SELECT
            source, rank, step, stated, beside_forward, ts_ns, end_ns,
            -- What takes over from the operators that follow each other: 0 for a backward, 1 for
            -- its end, 2 for anything else. The window runs backwards over numbers: DuckDB takes
            -- the square of the time for what follows, and for texts that are NULL.
            min(CASE
                WHEN stated = 'backward' THEN 3 * place
                WHEN stated = 'backward_end' THEN 3 * place + 1
                WHEN stated IN ('optimizer', 'data_loading') THEN 3 * place + 2
            END) OVER (
                PARTITION BY source, rank, step ORDER BY place DESC
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) % 3 AS next_turn,
            max(CASE WHEN stated = 'backward' THEN ts_ns END) OVER (
                PARTITION BY source, rank, step
            ) AS last_backward_ns,
            min(CASE WHEN stated = 'backward' THEN ts_ns END) OVER (
                PARTITION BY source, rank, step
            ) AS first_backward_ns,
            min(CASE WHEN stated = 'forward' THEN ts_ns END) OVER (
                PARTITION BY source, rank, step
            ) AS first_forward_ns
        FROM beside
    ),

    phased AS (
        SELECT
            source, rank, step, ts_ns, end_ns,
            first_forward_ns IS NOT NULL AS says_forward,
            CASE
                WHEN stated IN ('optimizer', 'zero_grad', 'data_loading', 'backward') THEN stated
                WHEN stated = 'backward_end' OR next_turn = 1
                    THEN CASE WHEN first_backward_ns <= ts_ns THEN 'backward' END
                WHEN stated = 'forward'
                    THEN CASE WHEN coalesce(ts_ns < last_backward_ns, TRUE) THEN 'forward' END
                WHEN next_turn = 0
                    AND (first_forward_ns IS NULL OR ts_ns > first_forward_ns AND beside_forward)
                    THEN 'forward'
            END AS phase
        FROM placed
    ),

    changes AS (
        SELECT
            source, rank, step, phase, says_forward, ts_ns, end_ns,
            CASE WHEN phase IS DISTINCT FROM lag(phase) OVER (
                PARTITION BY source, rank, step ORDER BY ts_ns, end_ns DESC, phase
            ) THEN 1 ELSE 0 END AS begins
        FROM phased
        WHERE phase IS NOT NULL
    ),

    runs AS (
        SELECT
            source, rank, step, phase, says_forward, ts_ns, end_ns,
            sum(begins) OVER (
                PARTITION BY source, rank, step ORDER BY ts_ns, end_ns DESC, phase
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS run
        FROM changes
    ),

    spans AS (
        -- What is stated is what it is; runs of operators are of one piece.
        SELECT source, rank, step, phase, ts_ns AS start_ns, end_ns
        FROM runs
        WHERE phase IN ('optimizer', 'zero_grad', 'data_loading') OR phase = 'forward' AND says_forward
        UNION ALL
        SELECT source, rank, step, phase, min(ts_ns), max(end_ns)
        FROM runs
        WHERE phase = 'backward' OR phase = 'forward' AND NOT says_forward
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
