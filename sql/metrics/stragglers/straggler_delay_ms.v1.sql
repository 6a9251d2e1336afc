-- @metric   straggler_delay_ms
-- @version  1
-- @area     stragglers
-- @summary  How far apart the ranks end a step on their devices: latest less earliest of the last
--           ends of the ranks, mean over steps.
-- @grain    trace
-- @requires device_events
-- @reads    _step_sums _launch_coverage _windows _clock_shifts ranks
-- @value    straggler_delay_ms
-- @alias    straggler_delay
-- @coverage launch_coverage_ratio | launches of device events are
-- @warn     clock_aligned
--           | the clocks of the ranks differ: their offsets (clock_offsets) are taken away; -p
--           align=false compares the clocks as recorded
-- @null     no step, and no window, has device events of two ranks
-- @check    (SELECT count(DISTINCT rank) FROM ranks) > 1 | the trace has fewer than two ranks
-- @param    align BOOLEAN NULL | Take the offsets of the clocks (clock_offsets) from the times of
--           the ranks before they are compared: true or false; without it where an offset exceeds
--           both its uncertainty and the median lag of the calls.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   straggler_delay_ms DOUBLE value ms lower | Last end of the slowest rank - that of the
--           fastest, of the device events that a step launched; mean over the steps that two ranks
--           or more have.
-- @column   straggler_delay_ratio DOUBLE value ratio lower | The same over the step on the devices
--           (first start to last end over ranks), mean over steps.
-- @column   max_delay_ms DOUBLE value ms lower | Largest of a step.
-- @column   num_steps BIGINT value count | Steps compared.
-- @column   by_step LIST value - | Of each step: delay, ratio, the ranks compared, and the slowest
--           and fastest of them (the lowest of equals).
-- @column   method VARCHAR value - | steps; or window where no step launched device events: then
--           the whole recording is one.
-- @column   clock_aligned BOOLEAN value - | Whether the offsets of the clocks were taken away: see
--           the parameter align.
-- @column   launch_coverage_ratio DOUBLE value ratio | Share of the device events whose launch, and
--           so whose step, is known (of XLA all); NULL by method window.
-- @caveat   A call that all ranks leave together at the end of a step hides its straggler: see
--           straggler_by_rank.
-- @source   metrics 2.I straggler_delay (group 8); steps by their launches (1.6)
WITH
    -- Whether steps launch device events at all.
    step_ends AS (
        SELECT
            trace, rank, step,
            min(start_ns) AS start_ns,
            max(end_ns) AS end_ns
        FROM _step_sums
        WHERE step IS NOT NULL
        GROUP BY trace, rank, step
    ),

    ends AS (
        SELECT trace, rank, step, start_ns, end_ns, 'steps' AS method
        FROM step_ends
        UNION ALL
        SELECT w.trace, w.rank, CAST(NULL AS BIGINT), w.start_ns, w.end_ns, 'window'
        FROM _windows AS w
        WHERE w.basis = 'device'
            AND NOT EXISTS (SELECT 1 FROM step_ends AS s WHERE s.trace = w.trace)
    ),

    aligned AS (
        SELECT
            e.trace, e.rank, e.step, e.method, o.aligned,
            e.start_ns - o.shift_ns AS start_ns,
            e.end_ns - o.shift_ns AS end_ns
        FROM ends AS e
        INNER JOIN _clock_shifts AS o ON o.trace = e.trace AND o.rank = e.rank
        WHERE o.aligned = coalesce($align, o.by_itself)
    ),

    placed AS (
        SELECT
            trace, rank, step, method, aligned, start_ns, end_ns,
            row_number() OVER (PARTITION BY trace, step ORDER BY end_ns DESC, rank) AS from_last,
            row_number() OVER (PARTITION BY trace, step ORDER BY end_ns, rank) AS from_first
        FROM aligned
    ),

    per_step AS (
        SELECT
            trace, step, method,
            max(end_ns) - min(end_ns) AS delay_ns,
            (max(end_ns) - min(end_ns)) / nullif(CAST(max(end_ns) - min(start_ns) AS DOUBLE), 0)
                AS delay_ratio,
            count(*) AS ranks,
            bool_or(aligned) AS aligned,
            max(rank) FILTER (WHERE from_last = 1) AS slowest_rank,
            max(rank) FILTER (WHERE from_first = 1) AS fastest_rank
        FROM placed
        GROUP BY trace, step, method
        HAVING count(*) > 1
    ),

    totals AS (
        SELECT
            trace,
            avg(delay_ns / 1e6 ORDER BY step) AS straggler_delay_ms,
            avg(delay_ratio ORDER BY step) AS straggler_delay_ratio,
            max(delay_ns) / 1e6 AS max_delay_ms,
            count(step) AS num_steps,
            array_agg({
                step: step, delay_ms: delay_ns / 1e6, delay_ratio: delay_ratio, ranks: ranks,
                slowest_rank: slowest_rank, fastest_rank: fastest_rank
            } ORDER BY step) AS by_step,
            max(method) AS method,
            bool_or(aligned) AS clock_aligned
        FROM per_step
        GROUP BY trace
    )

SELECT
    t.trace, t.straggler_delay_ms, t.straggler_delay_ratio, t.max_delay_ms, t.num_steps, t.by_step,
    t.method, t.clock_aligned,
    CASE WHEN t.method = 'steps' THEN c.launch_coverage_ratio END AS launch_coverage_ratio
FROM totals AS t
LEFT JOIN _launch_coverage AS c ON c.trace = t.trace
ORDER BY t.trace
