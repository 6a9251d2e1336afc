-- @comparison change_account
-- @summary  What the change of the mean step time consists of: rows that sum to it, by part of the
--           step, then by kind and size of call, by kernel, or by the rank that is waited for.
-- @requires _rank_account
-- @reads    _exposed_transfers _kernel_costs kernel_classes
-- @null     every part of a step takes the same time in both runs; or they have no device in
--           common terms: one has steps and the other none, or one has no device
-- @param    base VARCHAR NULL | Trace of the baseline.
-- @param    test VARCHAR NULL | Trace that is compared with it.
-- @column   part VARCHAR dim - | Part of the step, as in step_account.
-- @column   item VARCHAR dim - | What it is of: a kernel; kind, dimension and size of calls; the
--           rank that is waited for; rest: what of the part lies in none of the others (what runs
--           at the same time counts once in the part, and once in each kernel or call). NULL: the
--           part as a whole.
-- @column   effect VARCHAR dim - | count: more or fewer of them; duration: each is longer or
--           shorter; replaced: the kernels of a class that only one of the runs has; added or gone:
--           only the test or only the baseline has it; time: neither can be told apart.
-- @column   what VARCHAR value - | Part and item in words.
-- @column   per VARCHAR value - | step, or trace.
-- @column   base_ms DOUBLE value ms lower | Time of the item in a step of the baseline, mean over
--           ranks.
-- @column   test_ms DOUBLE value ms lower | The same of the test.
-- @column   change_ms DOUBLE value ms lower | What this adds to the step time; all rows sum to the
--           change of the step time.
-- @column   change_pct DOUBLE value pct lower | The same, of the step of the baseline.
-- @column   base_step_ms DOUBLE value ms lower | Step of the baseline.
-- @column   test_step_ms DOUBLE value ms lower | Step of the test.
-- @caveat   Kernels are matched by name, calls by kind, dimension and size, ranks by number. What
--           cannot be matched has a row of its own. A count that changes is told by the time that
--           one took in the baseline, a time that changes by the number in the test.
-- @caveat   Of transfers what is exposed counts: a call that compute hides takes no time of a step,
--           and one that it hides now is shorter.
-- @source   account_summary of both runs
WITH
    accounts AS MATERIALIZED (
        SELECT trace, rank, per, step_ms, part, cause_rank, time_ms
        FROM _rank_account
        WHERE trace IN ($base, $test)
    ),

    rank_steps AS (
        SELECT DISTINCT trace, rank, per, step_ms
        FROM accounts
    ),

    totals AS (
        SELECT trace, per, count(*) AS rank_count, avg(step_ms ORDER BY rank) AS step_ms
        FROM rank_steps
        GROUP BY trace, per
    ),

    runs AS (
        SELECT
            b.per, b.rank_count AS base_ranks, t.rank_count AS test_ranks,
            b.step_ms AS base_step_ms, t.step_ms AS test_step_ms
        FROM totals AS b
        INNER JOIN totals AS t ON t.per = b.per AND t.trace = $test
        WHERE b.trace = $base
    ),

    sides AS (
        SELECT
            u.name AS side, CASE u.name WHEN 'base' THEN $base ELSE $test END AS trace,
            CASE u.name WHEN 'base' THEN r.base_ranks ELSE r.test_ranks END AS rank_count
        FROM runs AS r
        CROSS JOIN (VALUES ('base'), ('test')) AS u (name)
    ),

    -- What each part takes; of waiting, for each rank that it goes back to.
    parts AS (
        SELECT
            a.part, a.cause_rank,
            coalesce(
                sum(a.time_ms / s.rank_count ORDER BY a.rank) FILTER (WHERE s.side = 'base'), 0
            ) AS base_ms,
            coalesce(
                sum(a.time_ms / s.rank_count ORDER BY a.rank) FILTER (WHERE s.side = 'test'), 0
            ) AS test_ms
        FROM accounts AS a
        INNER JOIN sides AS s ON s.trace = a.trace
        GROUP BY a.part, a.cause_rank
    ),

    classes AS (
        SELECT name, min(kernel_class) AS kernel_class
        FROM kernel_classes
        WHERE trace IN ($base, $test) AND class = 'compute'
        GROUP BY name
    ),

    things AS (
        SELECT
            s.side, 'compute' AS part, k.name AS item, c.kernel_class AS class,
            sum(k.kernels_per_step / s.rank_count ORDER BY k.rank) AS thing_count,
            sum(k.time_ms / s.rank_count ORDER BY k.rank) AS time_ms
        FROM _kernel_costs AS k
        INNER JOIN sides AS s ON s.trace = k.trace
        LEFT JOIN classes AS c ON c.name = k.name
        GROUP BY s.side, k.name, c.kernel_class
        UNION ALL
        SELECT
            s.side, CASE WHEN x.is_matched THEN 'transfer' ELSE 'unmatched' END,
            concat_ws(
                ' ', x.collective, x.dim,
                CASE
                    WHEN x.message_bytes IS NULL THEN 'of unknown size'
                    ELSE 'of ' || format_bytes(x.message_bytes)
                END
            ),
            NULL, sum(x.calls / s.rank_count ORDER BY x.rank, x.pg_id),
            sum(x.exposed_ms / s.rank_count ORDER BY x.rank, x.pg_id)
        FROM _exposed_transfers AS x
        INNER JOIN sides AS s ON s.trace = x.trace
        GROUP BY s.side, x.is_matched, x.collective, x.dim, x.message_bytes
    ),

    pairs AS (
        SELECT
            part, item, class,
            sum(thing_count) FILTER (WHERE side = 'base') AS base_count,
            sum(thing_count) FILTER (WHERE side = 'test') AS test_count,
            sum(time_ms) FILTER (WHERE side = 'base') AS base_ms,
            sum(time_ms) FILTER (WHERE side = 'test') AS test_ms
        FROM things
        GROUP BY part, item, class
    ),

    -- Kernels that only one run has: those of a class that both runs have such kernels of are one
    -- row, as one may stand for the other.
    lone AS (
        SELECT
            part, class,
            CASE WHEN count(base_ms) > 0 AND count(test_ms) > 0 AND class IS NOT NULL
                THEN 'replaced'
            END AS effect,
            sum(base_ms) AS base_ms, sum(test_ms) AS test_ms
        FROM pairs
        WHERE (base_ms IS NULL) <> (test_ms IS NULL)
        GROUP BY part, class
    ),

    -- Of a thing that one run lacks count and duration are NULL, and no leaves.
    effects AS (
        SELECT
            part, item, 'count' AS effect, base_ms, test_ms,
            (test_count - base_count) * (base_ms / base_count) AS change_ms
        FROM pairs
        UNION ALL
        SELECT
            part, item, 'duration', base_ms, test_ms,
            test_ms - test_count * (base_ms / base_count)
        FROM pairs
        UNION ALL
        SELECT
            part, 'kernels of class ' || class, effect, base_ms, test_ms, test_ms - base_ms
        FROM lone
        WHERE effect IS NOT NULL
        UNION ALL
        SELECT
            p.part, p.item, CASE WHEN p.base_ms IS NULL THEN 'added' ELSE 'gone' END,
            coalesce(p.base_ms, 0), coalesce(p.test_ms, 0),
            coalesce(p.test_ms, 0) - coalesce(p.base_ms, 0)
        FROM pairs AS p
        INNER JOIN lone AS l ON l.part = p.part AND l.class IS NOT DISTINCT FROM p.class
        WHERE l.effect IS NULL AND (p.base_ms IS NULL) <> (p.test_ms IS NULL)
        UNION ALL
        SELECT
            part, CASE WHEN cause_rank IS NOT NULL THEN 'rank ' || cause_rank END, 'time',
            base_ms, test_ms, test_ms - base_ms
        FROM parts
        WHERE part NOT IN ('compute', 'transfer', 'unmatched')
    ),

    -- What runs at the same time counts once in the part, and once in each thing.
    rests AS (
        SELECT
            p.part, 'rest' AS item, 'time' AS effect,
            p.base_ms - coalesce(t.base_ms, 0) AS base_ms,
            p.test_ms - coalesce(t.test_ms, 0) AS test_ms
        FROM parts AS p
        LEFT JOIN (
            SELECT
                part, sum(base_ms ORDER BY item) AS base_ms, sum(test_ms ORDER BY item) AS test_ms
            FROM pairs
            GROUP BY part
        ) AS t ON t.part = p.part
        WHERE p.part IN ('compute', 'transfer', 'unmatched')
    ),

    leaves AS (
        SELECT part, item, effect, base_ms, test_ms, change_ms
        FROM effects
        UNION ALL
        SELECT part, item, effect, base_ms, test_ms, test_ms - base_ms
        FROM rests
    )

SELECT
    l.part, l.item, l.effect,
    CASE
        WHEN l.part = 'wait' THEN 'waiting for ' || coalesce(l.item, 'a rank that is not known')
        WHEN l.item = 'rest' THEN l.part || ', the rest'
        WHEN l.part = 'transfer' THEN 'transfer: ' || l.item
        WHEN l.part = 'unmatched' THEN 'not matched: ' || l.item
        WHEN l.item IS NOT NULL THEN l.item
        WHEN l.part = 'compute' THEN 'kernels without a name'
        WHEN l.part = 'copy' THEN 'copies'
        WHEN l.part = 'graph' THEN 'graphs'
        WHEN l.part = 'launch' THEN 'idle: launches do not keep up'
        WHEN l.part = 'host' THEN 'idle: other work of the host'
        WHEN l.part = 'data_loading' THEN 'idle: data loading'
        WHEN l.part = 'sync' THEN 'idle: after synchronisation'
        WHEN l.part = 'kernel_gap' THEN 'idle: between queued kernels'
        WHEN l.part = 'unknown' THEN 'idle: launch not recorded'
        ELSE 'idle: ' || l.part
    END AS what,
    r.per, l.base_ms, l.test_ms, l.change_ms,
    100 * l.change_ms / nullif(r.base_step_ms, 0) AS change_pct, r.base_step_ms, r.test_step_ms
FROM leaves AS l
CROSS JOIN runs AS r
-- Below a femtosecond is rounding.
WHERE abs(l.change_ms) >= 1e-9
ORDER BY abs(l.change_ms) DESC, l.part, l.item, l.effect
