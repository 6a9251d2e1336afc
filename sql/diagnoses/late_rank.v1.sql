-- @diagnosis late_rank
-- @version  1
-- @summary  A rank comes late by its input or its host, and the others wait for it.
-- @profilers kineto nsys xla
-- @requires _rank_account
-- @reads    _diagnosis_limits
-- @gain     the most that another rank waits, exposed, for this one, directly or for one that waits
--           for it; not more than its idle time by host, data loading, synchronisation and launches
--           is longer than the median of the ranks
-- @shown    idle_causes
-- @check    (SELECT count(DISTINCT rank) FROM _rank_account) > 1 | a single rank was ingested
-- @check    (SELECT count(*) FROM _rank_account WHERE part IN ('wait', 'transfer')) > 0
--           | no call of two ranks or more is matched over them
-- @check    (SELECT count(*) FROM _rank_account WHERE part IN ('host', 'data_loading', 'sync',
--           'launch', 'kernel_gap')) > 0
--           | no launch of a device event was recorded, so that nothing says why a device idles
-- @caveat   Of a rank without a device, what its host computes between the calls is idle time of
--           the host.
-- @source   waiting goes back as in straggler_by_rank; idle time as in step_account
WITH
    ranks AS (
        SELECT DISTINCT trace, rank
        FROM _rank_account
    ),

    causes AS (
        SELECT unnest(['data_loading', 'host', 'sync', 'launch']) AS part
    ),

    idle AS (
        SELECT r.trace, r.rank, c.part, coalesce(sum(a.time_ms), 0) AS time_ms
        FROM ranks AS r
        CROSS JOIN causes AS c
        LEFT JOIN _rank_account AS a ON a.trace = r.trace AND a.rank = r.rank AND a.part = c.part
        GROUP BY r.trace, r.rank, c.part
    ),

    totals AS (
        SELECT trace, rank, sum(time_ms ORDER BY part) AS idle_ms
        FROM idle
        GROUP BY trace, rank
    ),

    medians AS (
        SELECT trace, median(idle_ms) AS median_ms
        FROM totals
        GROUP BY trace
    ),

    part_medians AS (
        SELECT trace, part, median(time_ms) AS median_ms
        FROM idle
        GROUP BY trace, part
    ),

    -- The part of which it has most more than the others.
    parts AS (
        SELECT i.trace, i.rank, i.part, i.time_ms, m.median_ms
        FROM idle AS i
        INNER JOIN part_medians AS m ON m.trace = i.trace AND m.part = i.part
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

    waited AS (
        SELECT trace, cause_rank AS rank, count(*) AS rank_count, max(wait_ms) AS most_ms
        FROM waits
        GROUP BY trace, cause_rank
    ),

    late AS (
        SELECT
            t.trace, t.rank, t.idle_ms, m.median_ms, p.part, p.time_ms - p.median_ms AS part_ms,
            w.rank_count, w.most_ms, least(w.most_ms, t.idle_ms - m.median_ms) AS gain_ms
        FROM totals AS t
        INNER JOIN medians AS m ON m.trace = t.trace
        INNER JOIN parts AS p ON p.trace = t.trace AND p.rank = t.rank
        INNER JOIN waited AS w ON w.trace = t.trace AND w.rank = t.rank
        WHERE t.idle_ms > m.median_ms AND w.most_ms > 0
        QUALIFY row_number() OVER (PARTITION BY t.trace ORDER BY gain_ms DESC, t.rank) <= 3
    )

SELECT
    l.trace,
    printf(
        'rank %d idles %.3f ms of a step for its host, the median rank %.3f ms; %.3f ms of the difference is %s; %s for it, up to %.3f ms',
        l.rank, l.idle_ms, l.median_ms, l.part_ms,
        CASE l.part
            WHEN 'data_loading' THEN 'data loading'
            WHEN 'host' THEN 'other work of the host'
            WHEN 'sync' THEN 'after calls that wait for the device'
            ELSE 'launches that do not keep up'
        END,
        CASE WHEN l.rank_count = 1 THEN 'one other waits' ELSE l.rank_count || ' others wait' END,
        l.most_ms
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
        ELSE 'give its process its own cores near its device (torchrun --numa-binding=node), and launch less: CUDA graphs, torch.compile'
    END AS advice,
    'SELECT rank, part, cause_rank, time_ms FROM _rank_account WHERE trace = {trace} AND part IN (''host'', ''data_loading'', ''sync'', ''launch'', ''wait'') ORDER BY ALL'
        AS evidence
FROM late AS l
INNER JOIN _diagnosis_limits AS d ON d.trace = l.trace
WHERE l.gain_ms > 0
