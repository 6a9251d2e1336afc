-- @diagnosis late_rank
-- @version  1
-- @summary  A rank comes late by its input or its host, and the others wait for it.
-- @profilers kineto nsys xla
-- @requires _rank_account
-- @reads    _late_ranks _diagnosis_limits
-- @gain     the most that another rank waits, exposed, for this one, directly or for one that waits
--           for it, and transfers, exposed, beyond what this one does; not more than its idle time
--           by host, data loading, synchronisation and launches is longer than the median of the
--           others, nor than its host works longer between launches than theirs (idle time after
--           calls that wait: as far as it has more of them), nor than any other rank so waits and
--           transfers, for whomever: a rank that waits less holds the step
-- @shown    idle_causes
-- @check    (SELECT count(DISTINCT rank) FROM _rank_account) > 1 | a single rank was ingested
-- @check    (SELECT count(*) FROM _rank_account WHERE part IN ('wait', 'transfer')) > 0
--           | no call of two ranks or more is matched over them
-- @check    (SELECT count(*) FROM _rank_account WHERE part IN ('host', 'data_loading', 'sync',
--           'launch', 'kernel_gap')) > 0
--           | no launch of a device event was recorded, so that nothing says why a device idles
-- @caveat   What the hosts of the others do for as long is not late, though only this device idles
--           for it, as the others wait meanwhile. Where fewer than three steps count, how much
--           later than the median of the others it begins the first of them counts as idle time:
--           why, lies before it. Of a rank without a device, what its host computes between the
--           calls is idle time of the host.
-- @source   waiting goes back as in straggler_by_rank; idle time as in step_account
WITH
    -- The part of which it has most more than the others.
    late AS (
        SELECT
            trace, rank, idle_ms, median_ms, late_ms, part, excess_ms, rank_count, most_ms, gain_ms,
            next_rank
        FROM _late_ranks
        QUALIFY row_number() OVER (PARTITION BY trace, rank ORDER BY excess_ms DESC, part) = 1
    )

SELECT
    l.trace,
    printf(
        'rank %d loses %.3f ms of a step to its host, the median of the others %.3f ms; %.3f ms of the difference is %s; %s for it, up to %.3f ms%s',
        l.rank, l.idle_ms, l.median_ms, l.excess_ms,
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
QUALIFY row_number() OVER (PARTITION BY l.trace ORDER BY l.gain_ms DESC, l.rank) <= 3
