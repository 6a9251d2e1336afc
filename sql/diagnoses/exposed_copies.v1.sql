-- @diagnosis exposed_copies
-- @version  1
-- @summary  The device copies while no kernel runs.
-- @profilers kineto nsys xla
-- @requires device_events _cost_bounds
-- @reads    _copy_costs _diagnosis_limits
-- @gain     the copies of this direction that no kernel hides, hidden or gone on all ranks, at most
--           the part copy of step_account: a rank loses that time, and of its exposed waiting for
--           another rank no more than that one loses; the step loses what the rank loses that loses
--           least
-- @shown    copy_summary
-- @caveat   A copy counts in the step in which it starts. Copies at the same time count each, not
--           more in all than the part copy.
-- @source   step_account
WITH
    totals AS (
        SELECT
            trace, coalesce(direction, '') AS direction, pageable,
            sum(time_ms ORDER BY rank) AS time_ms,
            avg(copies_per_step ORDER BY rank) AS copies_per_step,
            avg(bytes_per_step ORDER BY rank) AS bytes_per_step,
            sum(bytes_per_step ORDER BY rank) / sum(time_ms ORDER BY rank) / 1e6 AS rate_gb_per_s
        FROM _copy_costs
        GROUP BY trace, coalesce(direction, ''), pageable
    )

SELECT
    b.trace,
    printf(
        '%s%s are not hidden by kernels: %.3f ms of a step (%.1f %%), %.0f in a step%s',
        CASE b.key
            WHEN 'h2d' THEN 'copies from the host to the device'
            WHEN 'd2h' THEN 'copies from the device to the host'
            WHEN 'd2d' THEN 'copies within the device'
            WHEN 'p2p' THEN 'copies between devices'
            WHEN 'set' THEN 'sets of memory'
            ELSE 'copies'
        END,
        CASE WHEN c.pageable THEN ' of pageable memory' ELSE '' END, b.own_ms,
        100 * b.own_ms / b.step_ms, c.copies_per_step,
        coalesce(
            printf(', %.1f MiB at %.1f GB/s', c.bytes_per_step / 1048576, c.rate_gb_per_s), ''
        )
    ) AS finding,
    {rank: CASE WHEN b.is_of_one THEN b.most_rank END, kind: b.key}
        AS "where",
    b.time_ms AS time_per_step_ms,
    b.gain_ms,
    [l.steps_limit, l.matches_limit] AS limits,
    CASE
        WHEN c.pageable
            THEN 'pin the memory of the host: DataLoader(pin_memory=True) or tensor.pin_memory(), and copy with non_blocking=True on a stream of its own while the step before computes'
        WHEN b.key IN ('h2d', 'd2h')
            THEN 'copy beside compute: non_blocking=True from and to pinned memory on a stream of its own, the next batch during this step; of offloading (FSDP2 CPUOffloadPolicy, DeepSpeed offload, activation offloading) prefetch more, or offload less where the memory allows'
        WHEN b.key = 'set'
            THEN 'do not clear what is written anyway: zero_grad(set_to_none=True), torch.empty in place of torch.zeros'
        ELSE 'avoid copies within the device: .contiguous(), .clone(), cat and changes of layout; let torch.compile fuse them'
    END AS advice,
    'SELECT rank, direction, pageable, copies_per_step, bytes_per_step, rate_gb_per_s, time_ms, exposed_ms FROM _copy_costs WHERE trace = {trace} ORDER BY exposed_ms DESC'
        AS evidence
FROM _cost_bounds AS b
INNER JOIN totals AS c
    ON c.trace = b.trace AND c.direction = b.key AND c.pageable = (b.detail IS NOT NULL)
INNER JOIN _diagnosis_limits AS l ON l.trace = b.trace
WHERE b.subject = 'copy' AND b.gain_ms > 0
QUALIFY row_number() OVER (PARTITION BY b.trace ORDER BY b.gain_ms DESC, b.key, b.detail) <= 3
