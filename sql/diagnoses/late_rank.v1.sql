-- @diagnosis late_rank
-- @version  1
-- @summary  A rank comes late by its input or its host, and the others wait for it.
-- @profilers kineto nsys xla
-- @requires _rank_account
-- @reads    _account_windows _clock_shifts _diagnosis_limits
-- @gain     the most that another rank waits, exposed, for this one, directly or for one that waits
--           for it, and transfers, exposed, beyond what this one does; not more than its idle time
--           by host, data loading, synchronisation and launches is longer than the median of the
--           others, nor than any other rank so waits and transfers, for whomever: a rank that waits
--           less holds the step
-- @shown    idle_causes
-- @check    (SELECT count(DISTINCT rank) FROM _rank_account) > 1 | a single rank was ingested
-- @check    (SELECT count(*) FROM _rank_account WHERE part IN ('wait', 'transfer')) > 0
--           | no call of two ranks or more is matched over them
-- @check    (SELECT count(*) FROM _rank_account WHERE part IN ('host', 'data_loading', 'sync',
--           'launch', 'kernel_gap')) > 0
--           | no launch of a device event was recorded, so that nothing says why a device idles
-- @caveat   Where fewer than three steps count, how much later than the median of the others it
--           begins the first of them counts as idle time: why, lies before it. Of a rank without a
--           device, what its host computes between the calls is idle time of the host.
-- @source   waiting goes back as in straggler_by_rank; idle time as in step_account
WITH
    ranks AS (
        SELECT DISTINCT trace, rank
        FROM _rank_account
    ),

    causes AS (
        SELECT unnest(['data_loading', 'host', 'sync', 'launch']) AS part
    ),

    -- What a rank was late by before, it brings into the first step that counts.
    starts AS (
        SELECT
            w.trace, w.rank, count(*) AS window_count,
            min(w.start_ns - s.shift_ns) AS start_ns
        FROM _account_windows AS w
        INNER JOIN _clock_shifts AS s
            ON s.trace = w.trace AND s.rank = w.rank AND s.aligned = s.by_itself
        WHERE w.is_counted AND w.per = 'step'
        GROUP BY w.trace, w.rank
    ),

    -- Relative to the first, as numbers of this size have no fractions.
    lags AS (
        SELECT
            trace, rank,
            (start_ns - min(start_ns) OVER (PARTITION BY trace)) / 1e6 / window_count AS time_ms
        FROM starts
        WHERE window_count < 3
    ),

    idle AS (
        SELECT r.trace, r.rank, c.part, coalesce(sum(a.time_ms), 0) AS time_ms
        FROM ranks AS r
        CROSS JOIN causes AS c
        LEFT JOIN _rank_account AS a ON a.trace = r.trace AND a.rank = r.rank AND a.part = c.part
        GROUP BY r.trace, r.rank, c.part
        UNION ALL
        SELECT trace, rank, 'start', time_ms
        FROM lags
    ),

    totals AS (
        SELECT trace, rank, sum(time_ms ORDER BY part) AS idle_ms
        FROM idle
        GROUP BY trace, rank
    ),

    medians AS (
        SELECT t.trace, t.rank, median(o.idle_ms) AS median_ms
        FROM totals AS t
        INNER JOIN totals AS o ON o.trace = t.trace AND o.rank <> t.rank
        WHERE EXISTS (
            SELECT 1
            FROM _rank_account AS w
            WHERE w.trace = t.trace AND w.part = 'wait' AND w.cause_rank = t.rank
        )
        GROUP BY t.trace, t.rank
    ),

    part_medians AS (
        SELECT i.trace, i.rank, i.part, median(o.time_ms) AS median_ms
        FROM idle AS i
        INNER JOIN medians AS m ON m.trace = i.trace AND m.rank = i.rank
        INNER JOIN idle AS o ON o.trace = i.trace AND o.part = i.part AND o.rank <> i.rank
        GROUP BY i.trace, i.rank, i.part
    ),

    -- The part of which it has most more than the others.
    parts AS (
        SELECT i.trace, i.rank, i.part, i.time_ms, m.median_ms
        FROM idle AS i
        INNER JOIN part_medians AS m ON m.trace = i.trace AND m.rank = i.rank AND m.part = i.part
        QUALIFY row_number() OVER (
            PARTITION BY i.trace, i.rank ORDER BY i.time_ms - m.median_ms DESC, i.part
        ) = 1
    ),

    waits AS (
        SELECT trace, rank, cause_rank, sum(time_ms ORDER BY for_rank) AS wait_ms
        FROM _rank_account
        WHERE part = 'wait' AND cause_rank <> rank
        GROUP BY trace, rank, cause_rank
    ),

    comms AS (
        SELECT
            trace, rank,
            coalesce(sum(time_ms) FILTER (WHERE part = 'transfer'), 0) AS transfer_ms,
            coalesce(
                sum(time_ms ORDER BY part, for_rank) FILTER (WHERE part IN ('wait', 'unmatched')), 0
            ) AS slack_ms
        FROM _rank_account
        GROUP BY trace, rank
    ),

    -- A step cannot become shorter than what any other rank does without waiting.
    waited AS (
        SELECT
            c.trace, c.rank, count(w.rank) AS rank_count,
            max(w.wait_ms + greatest(o.transfer_ms - c.transfer_ms, 0)) AS most_ms,
            min(o.slack_ms + greatest(o.transfer_ms - c.transfer_ms, 0)) AS least_ms,
            arg_min(o.rank, o.slack_ms + greatest(o.transfer_ms - c.transfer_ms, 0)) AS next_rank
        FROM comms AS c
        INNER JOIN comms AS o ON o.trace = c.trace AND o.rank <> c.rank
        LEFT JOIN waits AS w ON w.trace = c.trace AND w.cause_rank = c.rank AND w.rank = o.rank
        GROUP BY c.trace, c.rank
    ),

    late AS (
        SELECT
            t.trace, t.rank, t.idle_ms, m.median_ms, p.part, p.time_ms - p.median_ms AS part_ms,
            w.rank_count, w.most_ms,
            least(w.most_ms, w.least_ms, t.idle_ms - m.median_ms) AS gain_ms,
            CASE
                WHEN w.least_ms < 0.9 * least(w.most_ms, t.idle_ms - m.median_ms) THEN w.next_rank
            END AS next_rank
        FROM totals AS t
        INNER JOIN medians AS m ON m.trace = t.trace AND m.rank = t.rank
        INNER JOIN parts AS p ON p.trace = t.trace AND p.rank = t.rank
        INNER JOIN waited AS w ON w.trace = t.trace AND w.rank = t.rank
        WHERE t.idle_ms > m.median_ms AND w.most_ms > 0
        QUALIFY row_number() OVER (PARTITION BY t.trace ORDER BY gain_ms DESC, t.rank) <= 3
    )

SELECT
    l.trace,
    printf(
        'rank %d loses %.3f ms of a step to its host, the median of the others %.3f ms; %.3f ms of the difference is %s; %s for it, up to %.3f ms%s',
        l.rank, l.idle_ms, l.median_ms, l.part_ms,
        CASE l.part
            WHEN 'data_loading' THEN 'data loading'
            WHEN 'host' THEN 'other work of the host'
            WHEN 'sync' THEN 'after calls that wait for the device'
            WHEN 'start' THEN 'a late start of the step'
            ELSE 'launches that do not keep up'
        END,
        CASE WHEN l.rank_count = 1 THEN 'one other waits' ELSE l.rank_count || ' others wait' END,
        l.most_ms,
        CASE WHEN l.next_rank IS NULL THEN '' ELSE '; without it rank ' || l.next_rank || ' holds the step' END
    ) AS finding,
    {rank: l.rank, phase: CASE WHEN l.part = 'data_loading' THEN 'data_loading' END} AS "where",
    l.most_ms AS time_per_step_ms,
    l.gain_ms,
    [d.steps_limit, d.clocks_limit, d.matches_limit, d.launches_limit] AS limits,
    CASE l.part
        WHEN 'data_loading'
            THEN 'load ahead on this rank: DataLoader num_workers, prefetch_factor, persistent_workers and pin_memory; look at its storage and at the length of its samples'
        WHEN 'host'
            THEN 'what only this rank does on its host: logging, evaluation or checkpoints (torch.distributed.checkpoint.async_save), the garbage collector of Python (gc.freeze, or gc.collect at the same step on all ranks), other processes on its cores'
        WHEN 'sync'
            THEN 'take calls that wait for the device off this rank, or do them rarely: .item(), .cpu(), print of a tensor, torch.cuda.synchronize'
        WHEN 'start'
            THEN 'it was late before the first step that was recorded: record three steps or more after the start of the profiler on all ranks (schedule of torch.profiler: wait, warmup, active), then look again'
        ELSE 'give its process its own cores near its device (torchrun --numa-binding=node), and launch less: CUDA graphs, torch.compile'
    END AS advice,
    'SELECT rank, part, cause_rank, time_ms FROM _rank_account WHERE trace = {trace} AND part IN (''host'', ''data_loading'', ''sync'', ''launch'', ''wait'') ORDER BY ALL'
        AS evidence
FROM late AS l
INNER JOIN _diagnosis_limits AS d ON d.trace = l.trace
WHERE l.gain_ms > 0
