-- @diagnosis host_sync
-- @version  1
-- @summary  The host waits for the device, and the device is idle until the next launch.
-- @profilers kineto nsys
-- @requires device_events launches host_events _cost_bounds
-- @reads    _idle_labels _diagnosis_limits
-- @check    (SELECT count(*) FROM device_events WHERE source <> 'xla') > 0
--           | XLA launches whole programs, so that its device events have no launches of their own
-- @check    (SELECT count(*) FROM host_events WHERE class = 'host_runtime') > 0
--           | the trace has no calls of the runtime
-- @gain     of the part sync of step_account the idle time after this call in this operator, gone
--           on all ranks: a rank loses that time, and of its exposed waiting for another rank no
--           more than that one loses; the step loses what the rank loses that loses least
-- @shown    idle_causes
-- @caveat   A synchronisation after which the device is not idle costs nothing and is no finding.
--           What follows a synchronisation and takes the host more than 100 us is host_stalls.
-- @source   step_account
WITH
    calls AS (
        SELECT
            trace, name, operator, max(longest_ms) AS longest_ms,
            avg(spans_per_step ORDER BY rank) AS calls_per_step
        FROM _idle_labels
        WHERE part = 'sync' AND kind = 'call'
        GROUP BY trace, name, operator
    )

SELECT
    b.trace,
    printf(
        '%s%s holds up the host %.1f times in a step; the device is idle %.3f ms of it after that (%.1f %%)%s, at most %.3f ms at once',
        b.key, coalesce(' in ' || b.detail, ' outside of operators'), c.calls_per_step, b.own_ms,
        100 * b.own_ms / b.step_ms, b.ranks_text, c.longest_ms
    ) AS finding,
    {rank: CASE WHEN b.is_of_one THEN b.most_rank END, operator: b.detail}
        AS "where",
    b.time_ms AS time_per_step_ms,
    b.gain_ms,
    [l.steps_limit, l.launches_limit, l.matches_limit] AS limits,
    CASE
        WHEN b.detail IN ('aten::item', 'aten::_local_scalar_dense', 'aten::is_nonzero', 'aten::equal')
            THEN 'keep the number on the device: no .item(), float(tensor), print or if on a tensor in the step; read losses and norms every N steps (torch.cuda.set_sync_debug_mode("warn") names the lines)'
        WHEN b.detail IN ('aten::nonzero', 'aten::masked_select', 'aten::index', 'aten::_unique2', 'aten::repeat_interleave')
            THEN 'its output has a size that the host must know: use torch.where or masks of fixed size, give output_size to repeat_interleave, and nonzero_static (torch.cuda.set_sync_debug_mode("warn") names the lines)'
        WHEN b.key LIKE '%emcpy%' OR b.detail IN ('aten::to', 'aten::_to_copy', 'aten::copy_')
            THEN 'the copy blocks the host: pin the memory (DataLoader(pin_memory=True), tensor.pin_memory()), copy with non_blocking=True, and read what goes to the host a step later, after an event'
        ELSE 'take torch.cuda.synchronize, timers that synchronise and .item(), .cpu(), nonzero out of the step; measure with CUDA events read a step later (torch.cuda.set_sync_debug_mode("warn") names the lines)'
    END AS advice,
    'SELECT rank, name AS call, operator, time_ms, spans_per_step AS calls_per_step, longest_ms FROM _idle_labels WHERE trace = {trace} AND kind = ''call'' ORDER BY time_ms DESC LIMIT 20'
        AS evidence
FROM _cost_bounds AS b
INNER JOIN calls AS c
    ON c.trace = b.trace AND c.name = b.key AND c.operator IS NOT DISTINCT FROM b.detail
INNER JOIN _diagnosis_limits AS l ON l.trace = b.trace
WHERE b.subject = 'call' AND b.gain_ms > 0
QUALIFY row_number() OVER (PARTITION BY b.trace ORDER BY b.gain_ms DESC, b.key, b.detail) <= 3
