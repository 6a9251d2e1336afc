-- @diagnosis exposed_comm
-- @version  1
-- @summary  Communication of a parallel dimension is in transfer while nothing computes.
-- @profilers kineto nsys xla
-- @requires _exposed_transfers _rank_account
-- @reads    _wording _diagnosis_limits _match_doubts hockney_fits
-- @gain     exposed transfer of the dimension, not more than the compute that has no communication
--           beside it; of each rank, then the mean over the ranks that have such calls
-- @shown    exposed_comm_by_group
-- @check    (SELECT count(*) FROM _rank_account WHERE part = 'compute') > 0
--           | no compute on a device was recorded, beside which communication could hide
-- @caveat   A call counts whole in the step in which it ends, in step_account where it lies; the
--           finding has both numbers where they differ.
-- @caveat   All dimensions may hide behind the same compute: their gains do not add up. Where the
--           compute needs what the call brings, as in tensor parallelism, only a part of the bound
--           can be had, by cutting calls and compute into pieces. Calls of small_calls are left
--           out.
-- @source   metrics 2.E; what a call needs once all ranks are there is transfer, as in step_account
WITH
    -- Calls that small_calls speaks of.
    calls AS (
        SELECT
            x.trace, x.rank, x.collective, x.pg_id, x.pg_desc, x.dim, x.group_size, x.link, x.calls,
            x.is_matched, x.exposed_ms,
            coalesce(
                x.is_matched AND NOT x.uneven AND x.message_bytes > 0
                AND coalesce(x.dim, 'dp') = 'dp' AND x.message_bytes < f.n_half_bytes, FALSE
            ) AS is_small
        FROM _exposed_transfers AS x
        LEFT JOIN hockney_fits AS f
            ON f.trace = x.trace
            AND f.collective = x.collective
            AND f.group_size IS NOT DISTINCT FROM x.group_size
            AND f.link IS NOT DISTINCT FROM x.link
            AND f.sizes > 1
            AND coalesce(f.flag NOT LIKE '%low_r2%', TRUE)
    ),

    -- Many of them are to be fused.
    shares AS (
        SELECT
            trace, rank, coalesce(dim, 'unknown') AS dim,
            CASE WHEN dim IS NULL THEN collective END AS unknown_kind, collective, pg_desc,
            is_matched, exposed_ms
        FROM calls
        QUALIFY NOT is_small OR sum(calls) OVER (
            PARTITION BY trace, rank, collective, pg_id, group_size, link, calls.dim, is_small
        ) <= 1
    ),

    totals AS (
        SELECT
            trace, rank, dim, unknown_kind, sum(exposed_ms ORDER BY collective, exposed_ms) AS exposed_ms,
            coalesce(
                sum(exposed_ms ORDER BY collective, exposed_ms) FILTER (WHERE NOT is_matched), 0
            ) AS unmatched_ms
        FROM shares
        GROUP BY trace, rank, dim, unknown_kind
    ),

    -- What hides communication is compute beside which something communicates.
    free AS (
        SELECT
            trace, rank,
            greatest(
                coalesce(sum(time_ms) FILTER (WHERE part = 'compute'), 0) - coalesce(
                    sum(hidden_ms ORDER BY part, for_rank)
                        FILTER (WHERE part IN ('transfer', 'wait', 'unmatched')), 0
                ), 0
            ) AS free_ms
        FROM _rank_account
        GROUP BY trace, rank
    ),

    -- All of it, and what step_account has of it.
    wholes AS (
        SELECT trace, rank, sum(exposed_ms ORDER BY collective, exposed_ms) AS exposed_ms
        FROM _exposed_transfers
        GROUP BY trace, rank
    ),

    parts AS (
        SELECT trace, rank, sum(time_ms ORDER BY part) AS time_ms
        FROM _rank_account
        WHERE part IN ('transfer', 'unmatched')
        GROUP BY trace, rank
    ),

    accounts AS (
        SELECT
            e.trace, avg(e.exposed_ms ORDER BY e.rank) AS exposed_ms,
            avg(coalesce(p.time_ms, 0) ORDER BY e.rank) AS account_ms
        FROM wholes AS e
        LEFT JOIN parts AS p ON p.trace = e.trace AND p.rank = e.rank
        GROUP BY e.trace
    ),

    dims AS (
        SELECT
            t.trace, t.dim, t.unknown_kind, avg(t.exposed_ms ORDER BY t.rank) AS exposed_ms,
            avg(f.free_ms ORDER BY t.rank) AS free_ms,
            avg(least(t.exposed_ms, f.free_ms) ORDER BY t.rank) AS gain_ms,
            avg(t.unmatched_ms ORDER BY t.rank) AS unmatched_ms
        FROM totals AS t
        INNER JOIN free AS f ON f.trace = t.trace AND f.rank = t.rank
        GROUP BY t.trace, t.dim, t.unknown_kind
    ),

    kinds AS (
        SELECT trace, dim, unknown_kind, collective, sum(exposed_ms) AS exposed_ms
        FROM shares
        GROUP BY trace, dim, unknown_kind, collective
    ),

    kind_lists AS (
        SELECT
            trace, dim, unknown_kind, string_agg(collective, ', ' ORDER BY exposed_ms DESC, collective) AS kinds,
            first(collective ORDER BY exposed_ms DESC, collective) AS kind
        FROM kinds
        WHERE exposed_ms > 0
        GROUP BY trace, dim, unknown_kind
    ),

    group_lists AS (
        SELECT
            trace, dim, unknown_kind,
            string_agg(DISTINCT pg_desc, ', ' ORDER BY pg_desc) AS groups
        FROM shares
        WHERE exposed_ms > 0
        GROUP BY trace, dim, unknown_kind
        HAVING count(DISTINCT pg_desc) <= 3
    )

SELECT
    d.trace,
    printf(
        'communication %s (%s) is exposed for %.3f ms %s%s; %.3f ms of compute have no communication beside them%s',
        CASE d.dim
            WHEN 'unknown' THEN 'of unknown dimension'
            ELSE 'of dimension ' || d.dim
        END,
        k.kinds || coalesce(' of ' || g.groups, ''), d.exposed_ms, w.of_what,
        CASE WHEN d.unmatched_ms < d.exposed_ms / 2 THEN ' in transfer' ELSE ', waiting included' END,
        d.free_ms,
        CASE WHEN abs(a.exposed_ms - a.account_ms) > 0.01 * a.account_ms
            THEN printf('; of all %.3f ms the account of the step has %.3f ms, as a call counts here in the step in which it ends', a.exposed_ms, a.account_ms)
            ELSE ''
        END
    ) AS finding,
    {"group": coalesce(g.groups, nullif(d.dim, 'unknown')), kind: k.kind} AS "where",
    d.exposed_ms AS time_per_step_ms,
    d.gain_ms,
    [
        l.steps_limit, l.matches_limit, doubts.doubts_limit,
        CASE
            WHEN d.unmatched_ms > 0.05 * d.exposed_ms
                THEN printf('%.0f %% of it is of calls that are not matched over the ranks: waiting may be in it', 100 * d.unmatched_ms / d.exposed_ms)
        END
    ] AS limits,
    CASE
        WHEN w.framework = 'xla'
            THEN CASE
                WHEN w.vendor = 'google' THEN 'let XLA overlap it: LIBTPU_INIT_ARGS="--xla_tpu_enable_async_collective_fusion=true"; or '
                WHEN w.vendor IS NOT NULL THEN 'let XLA overlap it: XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true, with measured times (JAX_ENABLE_PGLE=yes); or '
                ELSE ''
            END || 'choose shardings that communicate less (jax.sharding, with_sharding_constraint), and larger batches, so that there is more to overlap with'
        WHEN w.framework = 'native'
            THEN 'start the calls earlier, on a stream of their own, with kernels that do not need them between, and wait by events'
        WHEN d.dim = 'dp'
            THEN 'start it earlier: DDP: bucket_cap_mb, no find_unused_parameters; FSDP2: fully_shard each layer, set_modules_to_forward_prefetch and set_modules_to_backward_prefetch; Megatron: --overlap-grad-reduce, --overlap-param-gather. Or send less: bf16 gradients, gradient accumulation without synchronisation'
        WHEN d.dim = 'tp'
            THEN 'cut it into pieces beside the GEMMs: Megatron: --tp-comm-overlap with --sequence-parallel; PyTorch: async tensor parallelism (torch._inductor.config._micro_pipeline_tp with symmetric memory). Or a lower degree of tensor parallelism'
        WHEN d.dim = 'pp'
            THEN 'send beside compute: Megatron: interleaved stages (--num-layers-per-virtual-pipeline-stage), which overlap sends by themselves; more micro-batches'
        WHEN d.dim = 'ep'
            THEN 'overlap dispatch and combine with other compute: Megatron: --overlap-moe-expert-parallel-comm, --moe-shared-expert-overlap; DeepEP; or keep the experts of a token in one node'
        WHEN d.dim = 'cp'
            THEN 'overlap the exchange of keys and values with attention: Megatron: --cp-comm-type p2p, or a lower degree of context parallelism'
        ELSE 'start the calls earlier and wait for them later (async_op=True, a stream of their own), with compute that does not need them between; init_device_mesh with mesh_dim_names, or group_desc of new_group, makes the trace say the dimension'
    END AS advice,
    'SELECT dim, collective, pg_desc, message_bytes, avg(calls) AS calls, avg(transfer_ms) AS transfer_ms, avg(exposed_ms) AS exposed_ms FROM _exposed_transfers WHERE trace = {trace} GROUP BY ALL ORDER BY exposed_ms DESC'
        AS evidence
FROM dims AS d
INNER JOIN kind_lists AS k
    ON k.trace = d.trace AND k.dim = d.dim AND k.unknown_kind IS NOT DISTINCT FROM d.unknown_kind
LEFT JOIN group_lists AS g
    ON g.trace = d.trace AND g.dim = d.dim AND g.unknown_kind IS NOT DISTINCT FROM d.unknown_kind
INNER JOIN accounts AS a ON a.trace = d.trace
INNER JOIN _wording AS w ON w.trace = d.trace
INNER JOIN _diagnosis_limits AS l ON l.trace = d.trace
LEFT JOIN _match_doubts AS doubts ON doubts.trace = d.trace
WHERE d.gain_ms > 0
QUALIFY row_number() OVER (
    PARTITION BY d.trace ORDER BY d.gain_ms DESC, d.dim, d.unknown_kind
) <= 3
