-- @diagnosis late_rank
-- @version  1
-- @summary  A rank comes late by its input or its host, and the others wait for it.
-- @profilers kineto nsys xla
-- @requires _rank_account
-- @reads    _late_ranks _idle_labels _diagnosis_limits
-- @gain     the most that another rank waits, exposed, for this one, directly or for one that waits
--           for it, and transfers, exposed, beyond what this one does; not more than its device
--           idles longer before the calls than that of the rank in the middle, by host, data
--           loading, synchronisation and launches, nor than its host works longer before them than
--           that one's (idle time after calls that wait: as far as it has more of them), nor than
--           any other rank so waits and transfers, for whomever: a rank that waits less holds the
--           step
-- @shown    idle_causes
-- @check    (SELECT count(DISTINCT rank) FROM _rank_account) > 1 | a single rank was ingested
-- @check    (SELECT count(*) FROM _rank_account WHERE part IN ('wait', 'transfer')) > 0
--           | no call of two ranks or more is matched over them
-- @check    (SELECT count(*) FROM _rank_account WHERE part IN ('host', 'data_loading', 'sync',
--           'launch', 'kernel_gap')) > 0
--           | no launch of a device event was recorded, so that nothing says why a device idles
-- @caveat   What the hosts of the others do for as long is not late, though only this device idles
--           for it, as the others wait meanwhile. Of a rank that is not late so, but begins the
--           first step of the trace later than the others, why lies before. Of a rank without a
--           device, what its host computes between the calls is idle time of the host.
-- @source   waiting goes back as in straggler_by_rank; idle time as in step_account
WITH
    -- The part of which it has most more than the others.
    late AS (
        SELECT
            trace, rank, late_ms, part, excess_ms, rank_count, most_ms, gain_ms, next_rank
        FROM _late_ranks
        QUALIFY row_number() OVER (PARTITION BY trace, rank ORDER BY excess_ms DESC, part) = 1
    ),

    -- The longest time of the part at once, and the range that has most of it.
    labels AS (
        SELECT
            trace, rank, part, max(longest_ms) FILTER (WHERE kind = 'all') AS longest_ms,
            arg_max(name, {time_ms: time_ms, name: name}) FILTER (WHERE kind = 'range') AS range_name
        FROM _idle_labels
        GROUP BY trace, rank, part
    )

SELECT
    l.trace,
    CASE WHEN l.part = 'start'
        THEN printf(
            'rank %d begins the first step of the trace %.3f ms later than the rank in the middle',
            l.rank, l.late_ms
        )
        ELSE printf(
            'the host of rank %d comes %.3f ms of a step later to the calls than that of the rank in the middle, %.3f ms of it by %s%s%s',
            l.rank, l.late_ms, l.excess_ms,
            CASE l.part
                WHEN 'data_loading' THEN 'data loading'
                WHEN 'host' THEN 'other work'
                WHEN 'sync' THEN 'waiting for the device'
                ELSE 'launches that do not keep up'
            END,
            CASE WHEN i.longest_ms < 2 * l.excess_ms
                THEN printf(' (up to %.3f ms at once)', i.longest_ms)
                ELSE ''
            END,
            coalesce(', most in the range ' || i.range_name, '')
        )
    END
        || CASE WHEN l.rank_count = 1 THEN '; one other waits' ELSE '; ' || l.rank_count || ' others wait' END
        || printf(' for it, up to %.3f ms', l.most_ms)
        || coalesce('; without it rank ' || l.next_rank || ' holds the step', '') AS finding,
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
            THEN 'it was late before the first step that was recorded: record three steps or more (schedule of torch.profiler: wait, warmup, active), then look again'
        ELSE 'give its process its own cores near its device (torchrun --numa-binding=node), and launch less: CUDA graphs, torch.compile'
    END AS advice,
    'SELECT place, call, rank, part, time_ns / 1e6 AS idle_ms FROM _call_idle WHERE trace = {trace} AND part IN (''host'', ''data_loading'', ''sync'', ''launch'') ORDER BY time_ns DESC LIMIT 40'
        AS evidence
FROM late AS l
INNER JOIN _diagnosis_limits AS d ON d.trace = l.trace
LEFT JOIN labels AS i ON i.trace = l.trace AND i.rank = l.rank AND i.part = l.part
QUALIFY row_number() OVER (PARTITION BY l.trace ORDER BY l.gain_ms DESC, l.rank) <= 3
