-- @diagnosis exposed_copies
-- @version  1
-- @summary  The device copies while no kernel runs.
-- @profilers kineto nsys xla
-- @requires device_events _cost_bounds
-- @reads    _copy_costs _rank_account _wording _diagnosis_limits
-- @gain     the copies of this direction that neither a kernel nor a copy of another direction
--           hides (several: those of several directions at once), gone on all ranks: a rank loses
--           that time, and of its exposed waiting for another rank no more than that one loses; the
--           step loses what the rank loses that loses least. Hiding them gains no more than the
--           kernels take that no copy is beside, which the finding says where that is less
-- @shown    copy_summary
-- @caveat   A copy counts in the step in which it starts.
-- @source   step_account
WITH
    totals AS (
        SELECT
            trace, coalesce(direction, '') AS direction, pageable,
            sum(copies_per_step ORDER BY rank) AS copies_per_step,
            avg(bytes_per_step ORDER BY rank) * count(*) AS bytes_per_step,
            sum(bytes_per_step ORDER BY rank)
                / sum(time_ms ORDER BY rank) FILTER (WHERE bytes_per_step IS NOT NULL)
                / 1e6 AS rate_gb_per_s,
            sum(shared_ms ORDER BY rank) AS shared_ms
        FROM _copy_costs
        GROUP BY trace, coalesce(direction, ''), pageable
    ),

    shared AS (
        SELECT trace, string_agg(DISTINCT direction, ', ' ORDER BY direction) AS directions
        FROM totals
        WHERE shared_ms > 0
        GROUP BY trace
    ),

    -- What hides copies is kernels beside which nothing copies.
    rank_kernels AS (
        SELECT
            trace, rank,
            coalesce(
                sum(time_ms ORDER BY part, for_rank)
                    FILTER (WHERE part IN ('compute', 'transfer', 'wait', 'unmatched')), 0
            ) - coalesce(sum(hidden_ms) FILTER (WHERE part = 'copy'), 0) AS free_ms
        FROM _rank_account
        GROUP BY trace, rank
    ),

    kernels AS (
        SELECT trace, avg(free_ms ORDER BY rank) AS free_ms
        FROM rank_kernels
        GROUP BY trace
    )

SELECT
    b.trace,
    printf(
        '%s%s are not hidden by kernels: %.3f ms %s (%.1f %%)%s%s%s%s',
        CASE b.key
            WHEN 'h2d' THEN 'copies from the host to the device'
            WHEN 'd2h' THEN 'copies from the device to the host'
            WHEN 'd2d' THEN 'copies within the device'
            WHEN 'p2p' THEN 'copies between devices'
            WHEN 'set' THEN 'sets of memory'
            WHEN 'several' THEN 'copies of several directions at once'
            ELSE 'copies'
        END,
        CASE WHEN c.pageable THEN ' of pageable memory' ELSE coalesce(' (' || s.directions || ')', '') END,
        b.own_ms, w.of_what, 100 * b.own_ms / b.step_ms,
        b.some_text,
        coalesce(
            printf(', ' || b.count_form || ' %s', c.copies_per_step / b.rank_count, w.in_what), ''
        ),
        coalesce(
            printf(
                ', %.1f MiB at %.1f GB/s', c.bytes_per_step / b.rank_count / 1048576, c.rate_gb_per_s
            ), ''
        ),
        CASE WHEN k.free_ms < b.own_ms
            THEN printf('; kernels with no copy beside them take %.3f ms: hiding gains at most that', k.free_ms)
            ELSE ''
        END
    ) AS finding,
    {rank: CASE WHEN b.is_of_one THEN b.most_rank END, kind: b.key}
        AS "where",
    b.time_ms AS time_per_step_ms,
    b.gain_ms,
    [l.steps_limit, l.matches_limit] AS limits,
    CASE
        WHEN b.key = 'set'
            THEN 'do not clear what is written anyway'
                || CASE w.framework WHEN 'pytorch' THEN ': zero_grad(set_to_none=True), torch.empty in place of torch.zeros' ELSE '' END
        WHEN b.key = 'd2d'
            THEN CASE w.framework
                WHEN 'pytorch' THEN 'avoid copies within the device: .contiguous(), .clone(), cat and changes of layout; let torch.compile fuse them'
                WHEN 'xla' THEN 'avoid copies within the device: donate arguments (jax.jit with donate_argnums), and choose layouts and shardings that do not change between operations'
                ELSE 'avoid copies within the device: exchange pointers in place of buffers, and let kernels read where the data lies'
            END
        WHEN b.key = 'p2p'
            THEN 'copy between devices beside compute, on a stream of its own, or let each device compute what it needs'
        WHEN c.pageable
            THEN CASE w.framework
                WHEN 'pytorch' THEN 'pin the memory of the host: DataLoader(pin_memory=True) or tensor.pin_memory(), and copy with non_blocking=True on a stream of its own while the step before computes'
                ELSE 'pin the memory of the host (cudaMallocHost or cudaHostRegister), copy with cudaMemcpyAsync on a stream of its own, and only what changed'
            END
        WHEN k.free_ms < b.own_ms / 2
            THEN 'copy less, as there is little to hide it behind: ' || CASE w.framework
                WHEN 'pytorch' THEN 'keep on the device what each step needs (less offloading: FSDP2 CPUOffloadPolicy, DeepSpeed offload, activation offloading; vLLM: --cpu-offload-gb, a KV cache that fits), in a smaller type or sharded over more devices; load a model before the time that counts'
                WHEN 'xla' THEN 'keep on the device what each step needs (less in memory_kind="pinned_host" and in jax.checkpoint_policies that offload), in a smaller type or sharded over more devices'
                ELSE 'keep data on the device between kernels, copy only what changed, and in a smaller type'
            END
        ELSE 'copy beside compute: ' || CASE w.framework
                WHEN 'pytorch' THEN 'non_blocking=True from and to pinned memory on a stream of its own, the next batch during this step; of offloading (FSDP2 CPUOffloadPolicy, DeepSpeed offload, activation offloading) prefetch more, or offload less where the memory allows'
                WHEN 'xla' THEN 'jax.device_put of the next batch before the results of this step are asked for; of offloading (memory_kind="pinned_host", jax.checkpoint_policies.save_and_offload_only_these_names) less where the memory allows'
                ELSE 'asynchronous copies from and to pinned memory on a stream of its own, in pieces that overlap the kernels'
            END
    END AS advice,
    'SELECT rank, direction, pageable, copies_per_step, bytes_per_step, rate_gb_per_s, time_ms, exposed_ms FROM _copy_costs WHERE trace = {trace} ORDER BY exposed_ms DESC'
        AS evidence
FROM _cost_bounds AS b
INNER JOIN totals AS c
    ON c.trace = b.trace AND c.direction = b.key AND c.pageable = (b.detail IS NOT NULL)
INNER JOIN kernels AS k ON k.trace = b.trace
INNER JOIN _wording AS w ON w.trace = b.trace
LEFT JOIN shared AS s ON s.trace = b.trace AND b.key = 'several'
INNER JOIN _diagnosis_limits AS l ON l.trace = b.trace
WHERE b.subject = 'copy' AND b.gain_ms > 0
QUALIFY row_number() OVER (PARTITION BY b.trace ORDER BY b.gain_ms DESC, b.key, b.detail) <= 3
