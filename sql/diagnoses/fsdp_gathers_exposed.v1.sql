-- @diagnosis fsdp_gathers_exposed
-- @version  1
-- @summary  FSDP gathers parameters too late: all-gathers have no compute beside them that hides
--           them.
-- @profilers kineto nsys
-- @requires _rank_account
-- @reads    fsdp_steps _fsdp_calls _account_windows _diagnosis_limits busy_intervals
-- @gain     transfer of its all-gathers without compute beside it, without the first of each step,
--           which nothing comes before; mean over the ranks with FSDP; of a rank not more than its
--           exposed transfer
-- @shown    fsdp_prefetch_efficiency_pct
-- @check    (SELECT coalesce(sum(gather_ns), 0) FROM fsdp_steps) > 0
--           | no range of FSDP launched an all-gather that the trace holds
-- @check    (SELECT count(*) FROM busy_intervals WHERE class = 'compute') > 0
--           | the trace has no compute on a device, which could hide an all-gather
-- @caveat   Of a call that is not matched over the ranks all of its time counts, waiting included.
-- @source   transfer as in step_account; calls by the range of FSDP that launched them
WITH
    windows AS (
        SELECT trace, rank, count(*) AS window_count, bool_or(per = 'trace') AS is_trace
        FROM _account_windows
        WHERE is_counted
        GROUP BY trace, rank
    ),

    -- All calls of FSDP: a rank that gathers in one pass alone has lost nothing in the other.
    calls AS (
        SELECT
            trace, rank, device, step, CASE WHEN kind = 'gather' THEN phase END AS phase,
            transfer_ns, exposed_ns,
            row_number() OVER (
                PARTITION BY trace, rank, device, step, kind ORDER BY start_ns, event_id
            ) = 1 AS is_first
        FROM _fsdp_calls
    ),

    counted AS (
        SELECT
            g.trace, g.rank, p.phase, w.window_count,
            count(DISTINCT g.device) AS device_count,
            count(*) FILTER (WHERE g.phase = p.phase) AS call_count,
            count(*) FILTER (WHERE g.phase = p.phase AND 2 * g.exposed_ns > g.transfer_ns)
                AS bare_count,
            coalesce(sum(g.transfer_ns) FILTER (WHERE g.phase = p.phase), 0) AS transfer_ns,
            coalesce(sum(g.exposed_ns) FILTER (WHERE g.phase = p.phase), 0) AS exposed_ns,
            coalesce(sum(g.exposed_ns) FILTER (WHERE g.phase = p.phase AND NOT g.is_first), 0)
                AS late_ns
        FROM calls AS g
        INNER JOIN windows AS w ON w.trace = g.trace AND w.rank = g.rank
        CROSS JOIN (VALUES ('forward'), ('backward')) AS p (phase)
        LEFT JOIN _account_windows AS s
            ON s.trace = g.trace AND s.rank = g.rank AND s.step = g.step AND s.is_counted
        WHERE s.step IS NOT NULL OR w.is_trace
        GROUP BY g.trace, g.rank, p.phase, w.window_count
    ),

    rooms AS (
        SELECT trace, rank, sum(time_ms ORDER BY part) AS room_ms
        FROM _rank_account
        WHERE part IN ('transfer', 'unmatched')
        GROUP BY trace, rank
    ),

    ranks AS (
        SELECT
            c.trace, c.rank, c.phase, c.call_count / (c.window_count * c.device_count) AS calls,
            c.bare_count / (c.window_count * c.device_count) AS bare_calls,
            c.transfer_ns / 1e6 / (c.window_count * c.device_count) AS transfer_ms,
            least(
                c.exposed_ns / 1e6 / (c.window_count * c.device_count), coalesce(r.room_ms, 0)
            ) AS exposed_ms,
            least(
                c.late_ns / 1e6 / (c.window_count * c.device_count), coalesce(r.room_ms, 0)
            ) AS late_ms
        FROM counted AS c
        LEFT JOIN rooms AS r ON r.trace = c.trace AND r.rank = c.rank
    ),

    phases AS (
        SELECT
            trace, phase, avg(calls ORDER BY rank) AS calls,
            avg(bare_calls ORDER BY rank) AS bare_calls,
            avg(transfer_ms ORDER BY rank) AS transfer_ms,
            avg(exposed_ms ORDER BY rank) AS exposed_ms, avg(late_ms ORDER BY rank) AS late_ms
        FROM ranks
        GROUP BY trace, phase
    )

SELECT
    p.trace,
    printf(
        'FSDP gathers parameters in the %s pass with no compute beside for %.3f of %.3f ms of a step (%.1f of %.1f all-gathers are exposed by more than half)',
        p.phase, p.exposed_ms, p.transfer_ms, p.bare_calls, p.calls
    ) AS finding,
    {kind: 'all_gather', phase: p.phase} AS "where",
    p.exposed_ms AS time_per_step_ms,
    p.late_ms AS gain_ms,
    [l.steps_limit, l.launches_limit, l.matches_limit] AS limits,
    CASE p.phase
        WHEN 'forward'
            THEN 'gather the next layers ahead: FSDP2 set_modules_to_forward_prefetch, FSDP1 forward_prefetch=True; wrap each block (fully_shard), so that one gather fits behind the compute of the block before; keep the host ahead of the device; a larger micro-batch gives more compute to hide it'
        ELSE 'gather ahead of the backward: FSDP2 set_modules_to_backward_prefetch, FSDP1 backward_prefetch=BackwardPrefetch.BACKWARD_PRE; where memory allows, reshard_after_forward=False (FSDP1: ShardingStrategy.SHARD_GRAD_OP) leaves out these gathers'
    END AS advice,
    'SELECT rank, step, message_bytes, start_ns, transfer_ns, exposed_ns FROM _fsdp_calls WHERE trace = {trace} AND kind = ''gather'' AND phase = '''
        || p.phase || ''' ORDER BY exposed_ns DESC LIMIT 20' AS evidence
FROM phases AS p
INNER JOIN _diagnosis_limits AS l ON l.trace = p.trace
WHERE p.late_ms > 0
