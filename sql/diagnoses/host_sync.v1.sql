-- @diagnosis host_sync
-- @version  1
-- @summary  The host waits for the device, and the device is idle until the next launch.
-- @profilers kineto nsys
-- @requires device_events launches host_events _cost_bounds
-- @reads    _idle_labels _blocking_calls _launch_calls _diagnosis_limits
-- @check    (SELECT count(*) FROM device_events WHERE source <> 'xla') > 0
--           | XLA launches whole programs, so that its device events have no launches of their own
-- @check    (SELECT count(*) FROM host_events WHERE class = 'host_runtime') > 0
--           | the trace has no calls of the runtime
-- @gain     the part sync of step_account gone on all ranks: a rank loses that time, and of its
--           exposed waiting for another rank no more than that one loses; the step loses what the
--           rank loses that loses least
-- @shown    idle_causes
-- @caveat   A synchronisation after which the device is not idle costs nothing and is no finding.
--           What follows a synchronisation and takes the host more than 100 us is host_stalls.
-- @source   step_account
WITH
    calls AS (
        SELECT
            i.trace, i.name, i.operator, max(i.longest_ms) AS longest_ms,
            sum(i.time_ms ORDER BY i.rank) AS time_ms,
            sum(i.time_ms ORDER BY i.rank)
                / sum(sum(i.time_ms ORDER BY i.rank)) OVER (PARTITION BY i.trace) AS call_ratio,
            sum(i.spans_per_step ORDER BY i.rank) / b.rank_count AS calls_per_step
        FROM _idle_labels AS i
        INNER JOIN _cost_bounds AS b
            ON b.trace = i.trace AND b.subject = 'part' AND b.key = 'sync'
        WHERE i.part = 'sync' AND i.kind = 'call'
        GROUP BY i.trace, i.name, i.operator, b.rank_count
    ),

    named AS (
        SELECT
            trace, max(longest_ms) AS longest_ms,
            first({name: name, operator: operator} ORDER BY time_ms DESC, name, operator) AS most,
            list(
                printf(
                    '%s%s %.1f times (%.0f %%)', name,
                    coalesce(' in ' || operator, ' outside of operators'), calls_per_step,
                    100 * call_ratio
                ) ORDER BY time_ms DESC, name, operator
            ) AS texts
        FROM calls
        GROUP BY trace
    ),

    -- Whether the host waits as often as it launches.
    counts AS (
        SELECT l.trace, b.wait_count >= 0.9 * l.launch_count AS is_each
        FROM (
            SELECT trace, count(*) AS launch_count
            FROM _launch_calls
            WHERE class = 'compute'
            GROUP BY trace
        ) AS l
        INNER JOIN (
            SELECT trace, count(*) AS wait_count FROM _blocking_calls WHERE waits GROUP BY trace
        ) AS b ON b.trace = l.trace
    )

SELECT
    b.trace,
    printf(
        'the host waits for the device, which is then idle: %.3f ms of a step (%.1f %%)%s, at most %.3f ms at once; in a step %s%s',
        b.own_ms, 100 * b.own_ms / b.step_ms, b.ranks_text, n.longest_ms,
        array_to_string(n.texts[:3], ', '),
        CASE WHEN c.is_each THEN '; the host waits as often as it launches kernels' ELSE '' END
    ) AS finding,
    {rank: CASE WHEN b.is_of_one THEN b.most_rank END, operator: n.most.operator} AS "where",
    b.time_ms AS time_per_step_ms,
    b.gain_ms,
    [l.steps_limit, l.launches_limit, l.matches_limit] AS limits,
    CASE
        WHEN c.is_each
            THEN 'take the wait after each kernel away: settings for debugging (CUDA_LAUNCH_BLOCKING=1, AMD_SERIALIZE_KERNEL=3), error checks and timers that synchronise; kernels and copies of one stream keep their order without it'
        WHEN n.most.operator IN ('aten::item', 'aten::_local_scalar_dense', 'aten::is_nonzero', 'aten::equal')
            THEN 'keep the number on the device: no .item(), float(tensor), print or if on a tensor in the step; read losses and norms every N steps (torch.cuda.set_sync_debug_mode("warn") names the lines)'
        WHEN n.most.operator IN ('aten::nonzero', 'aten::masked_select', 'aten::index', 'aten::_unique2', 'aten::repeat_interleave')
            THEN 'its output has a size that the host must know: use torch.where or masks of fixed size, give output_size to repeat_interleave, and nonzero_static (torch.cuda.set_sync_debug_mode("warn") names the lines)'
        WHEN n.most.name LIKE '%emcpy%' OR n.most.operator IN ('aten::to', 'aten::_to_copy', 'aten::copy_')
            THEN 'the copy blocks the host: pin the memory (DataLoader(pin_memory=True), tensor.pin_memory()), copy with non_blocking=True, and read what goes to the host a step later, after an event'
        ELSE 'take torch.cuda.synchronize, timers that synchronise and .item(), .cpu(), nonzero out of the step; measure with CUDA events read a step later (torch.cuda.set_sync_debug_mode("warn") names the lines)'
    END AS advice,
    'SELECT rank, name AS call, operator, time_ms, spans_per_step AS calls_per_step, longest_ms FROM _idle_labels WHERE trace = {trace} AND part = ''sync'' AND kind = ''call'' ORDER BY time_ms DESC LIMIT 20'
        AS evidence
FROM _cost_bounds AS b
INNER JOIN named AS n ON n.trace = b.trace
INNER JOIN _diagnosis_limits AS l ON l.trace = b.trace
LEFT JOIN counts AS c ON c.trace = b.trace
WHERE b.subject = 'part' AND b.key = 'sync' AND b.gain_ms > 0
