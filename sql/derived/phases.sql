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
    training AS (
        SELECT
            t.rank_no, t.is_main, r.ts_ns, r.end_ns,
            coalesce(r.parent_event_id, -1) AS parent_id,
            CASE
                WHEN r.phase_around IN ('optimizer', 'zero_grad', 'data_loading') THEN r.phase_around
                WHEN r.kind = 'annotation' THEN r.phase
                WHEN r.phase IN ('backward', 'backward_end') THEN r.phase
                WHEN NOT t.is_main OR r.phase_around = 'backward' THEN 'backward'
                WHEN r.phase = 'backward_seed' THEN r.phase
                ELSE 'operator'
            END AS stated,
            -- Until when autograd lasts on the main thread: later ranks are greater.
            CASE WHEN t.is_main AND r.phase = 'backward'
                THEN t.rank_no::HUGEINT * 18446744073709551616 + r.end_ns END AS backward_end
        FROM _ranges AS r
        INNER JOIN _threads AS t
            ON t.source = r.source AND t.rank = r.rank
            AND t.pid IS NOT DISTINCT FROM r.pid AND t.tid IS NOT DISTINCT FROM r.tid
        WHERE t.is_main OR t.has_backward
    ),

    -- Without steps the whole trace is one, and has no number.
    numbered AS MATERIALIZED (
        SELECT
            t.rank_no, s.source, s.rank, s.step, s.ts_ns, s.ts_ns + s.dur_ns AS end_ns,
            row_number() OVER (ORDER BY t.rank_no, s.ts_ns, s.step) AS step_no
        FROM steps AS s
        INNER JOIN (SELECT DISTINCT source, rank, rank_no FROM _threads) AS t
            ON t.source = s.source AND t.rank = s.rank
    ),

    -- Ranges and the beginnings of steps, as texts that sort as fast as numbers.
    marks AS (
        SELECT
            rank_no, CAST(NULL AS BIGINT) AS step_no, ts_ns, end_ns, parent_id, backward_end,
            CAST(stated AS ENUM (
                'backward', 'backward_end', 'backward_seed', 'data_loading', 'forward',
                'forward_part', 'operator', 'optimizer', 'zero_grad'
            )) AS stated
        FROM training
        WHERE is_main AND stated IS NOT NULL OR stated NOT IN ('forward', 'forward_part')
        UNION ALL
        SELECT rank_no, step_no, ts_ns, NULL, NULL, NULL, NULL
        FROM numbered
    ),

    sorted AS (
        SELECT rank_no, step_no, ts_ns, end_ns, parent_id, backward_end, stated
        FROM marks
        ORDER BY rank_no, ts_ns, step_no NULLS LAST, end_ns DESC, stated
    ),

    -- In the order of the rows: windows without an order of their own cost a third. A turn is what
    -- takes over from the operators that follow each other.
    lined AS (
        SELECT
            rank_no, ts_ns, end_ns, parent_id, stated,
            max(step_no) OVER line AS step_no,
            max(backward_end) OVER line AS backward_until,
            count(CASE WHEN stated IN ('backward', 'backward_end', 'optimizer', 'data_loading') THEN 1 END)
                OVER line AS turns,
            count(CASE WHEN stated <> 'backward_seed' THEN 1 END) OVER line AS others,
            row_number() OVER () AS place
        FROM sorted
        WINDOW line AS (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
    ),

    items AS MATERIALIZED (
        SELECT
            l.rank_no, s.step_no, l.stated, l.parent_id, l.ts_ns,
            least(l.end_ns, s.end_ns) AS end_ns,
            l.turns, l.others, l.place
        FROM lined AS l
        LEFT JOIN numbered AS s ON s.step_no = l.step_no AND s.rank_no = l.rank_no
        LEFT JOIN (SELECT DISTINCT rank_no FROM numbered) AS stepped ON stepped.rank_no = l.rank_no
        WHERE l.stated IS NOT NULL
            AND (stepped.rank_no IS NULL OR l.ts_ns < s.end_ns)
            -- What says forward inside of autograd is computed again for the backward.
            AND (l.stated NOT IN ('forward', 'forward_part') OR coalesce(
                l.backward_until <= l.rank_no::HUGEINT * 18446744073709551616 + l.ts_ns, TRUE
            ))
    ),

    -- What may be the gradient that autograd starts from is it where autograd follows.
    seeds AS (
        SELECT s.place
        FROM items AS s
        INNER JOIN items AS n
            ON n.rank_no = s.rank_no AND n.others = s.others + 1
            AND n.step_no IS NOT DISTINCT FROM s.step_no
        WHERE s.stated = 'backward_seed' AND n.stated = 'backward'
    ),

    settled AS MATERIALIZED (
        SELECT
            i.rank_no, i.step_no, i.parent_id, i.ts_ns, i.end_ns, i.turns, i.place,
            CASE WHEN i.stated <> 'backward_seed' THEN i.stated
                WHEN s.place IS NOT NULL THEN 'backward'
                ELSE 'operator' END AS stated
        FROM items AS i
        LEFT JOIN seeds AS s ON s.place = i.place
    ),

    bounds AS (
        SELECT
            rank_no, step_no,
            min(ts_ns) FILTER (WHERE stated = 'backward') AS first_backward_ns,
            max(ts_ns) FILTER (WHERE stated = 'backward') AS last_backward_ns,
            min(ts_ns) FILTER (WHERE stated = 'forward') AS first_forward_ns
        FROM settled
        GROUP BY rank_no, step_no
    ),

    -- What stands around the ranges that say forward.
    forward_parents AS (
        SELECT DISTINCT rank_no, step_no, parent_id
        FROM settled
        WHERE stated = 'forward'
    ),

    next_turns AS (
        SELECT rank_no, step_no, turns, stated
        FROM items
        WHERE stated IN ('backward', 'backward_end', 'optimizer', 'data_loading')
    ),

    phased AS (
        SELECT
            i.rank_no, i.step_no, i.ts_ns, i.end_ns, i.place,
            b.first_forward_ns IS NOT NULL AS says_forward,
            CASE
                WHEN i.stated IN ('optimizer', 'zero_grad', 'data_loading', 'backward') THEN i.stated
                WHEN i.stated = 'backward_end' OR n.stated = 'backward_end'
                    THEN CASE WHEN b.first_backward_ns <= i.ts_ns THEN 'backward' END
                WHEN i.stated = 'forward'
                    THEN CASE WHEN coalesce(i.ts_ns < b.last_backward_ns, TRUE) THEN 'forward' END
                WHEN n.stated = 'backward'
                    AND (b.first_forward_ns IS NULL
                        OR i.ts_ns > b.first_forward_ns AND p.parent_id IS NOT NULL)
                    THEN 'forward'
            END AS phase
        FROM settled AS i
        INNER JOIN bounds AS b ON b.rank_no = i.rank_no AND b.step_no IS NOT DISTINCT FROM i.step_no
        LEFT JOIN next_turns AS n
            ON n.rank_no = i.rank_no AND n.turns = i.turns + 1
            AND n.step_no IS NOT DISTINCT FROM i.step_no
        LEFT JOIN forward_parents AS p
            ON p.rank_no = i.rank_no AND p.parent_id = i.parent_id
            AND p.step_no IS NOT DISTINCT FROM i.step_no
    ),

    placed AS (
        SELECT rank_no, step_no, phase, says_forward, ts_ns, end_ns
        FROM phased
        WHERE phase IS NOT NULL
        ORDER BY place
    ),

    -- A run ends where something of another phase begins.
    runs AS (
        SELECT
            rank_no, step_no, phase, says_forward, ts_ns, end_ns,
            CASE phase
                WHEN 'backward' THEN count(CASE WHEN phase <> 'backward' THEN 1 END) OVER line
                WHEN 'forward' THEN count(CASE WHEN phase <> 'forward' THEN 1 END) OVER line
            END AS run
        FROM placed
        WINDOW line AS (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
    ),

    spans AS (
        -- What is stated is what it is; runs of operators are of one piece.
        SELECT rank_no, step_no, phase, ts_ns AS start_ns, end_ns
        FROM runs
        WHERE phase IN ('optimizer', 'zero_grad', 'data_loading') OR phase = 'forward' AND says_forward
        UNION ALL
        SELECT rank_no, step_no, phase, min(ts_ns), max(end_ns)
        FROM runs
        WHERE phase = 'backward' OR phase = 'forward' AND NOT says_forward
        GROUP BY rank_no, step_no, phase, run
    ),

    lists AS (
        SELECT
            rank_no, step_no,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE phase = 'optimizer'), []) AS optimizer,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE phase = 'zero_grad'), []) AS zero_grad,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE phase = 'data_loading'), []) AS data_loading,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE phase = 'backward'), []) AS backward,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE phase = 'forward'), []) AS forward
        FROM spans
        GROUP BY rank_no, step_no
    ),

    -- No instant is of two phases: what is stated goes before what is concluded.
    windows AS (
        SELECT rank_no, step_no, 'optimizer' AS phase, unnest(interval_union(optimizer)) AS span
        FROM lists
        UNION ALL
        SELECT rank_no, step_no, 'zero_grad', unnest(interval_subtract(zero_grad, optimizer))
        FROM lists
        UNION ALL
        SELECT rank_no, step_no, 'data_loading', unnest(interval_subtract(data_loading, list_concat(optimizer, zero_grad)))
        FROM lists
        UNION ALL
        SELECT rank_no, step_no, 'backward', unnest(interval_subtract(backward, list_concat(list_concat(optimizer, zero_grad), data_loading)))
        FROM lists
        UNION ALL
        SELECT rank_no, step_no, 'forward', unnest(interval_subtract(
            forward, list_concat(list_concat(list_concat(optimizer, zero_grad), data_loading), backward)
        ))
        FROM lists
    )

SELECT
    r.source, r.rank, s.step, w.phase,
    w.span.start_ns AS ts_ns, w.span.end_ns - w.span.start_ns AS dur_ns
FROM windows AS w
INNER JOIN (SELECT DISTINCT source, rank, rank_no FROM _threads) AS r ON r.rank_no = w.rank_no
LEFT JOIN numbered AS s ON s.step_no = w.step_no
ORDER BY r.source, r.rank, ts_ns
