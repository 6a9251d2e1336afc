-- @diagnosis memory_near_limit
-- @version  1
-- @summary  A device holds almost all of its memory: a little more, and allocations fail or the
--           allocator gives back and fetches memory in the middle of steps.
-- @profilers kineto memory
-- @requires _rank_memory
-- @reads    _memory_reasons ranks
-- @param    near_limit_ratio DOUBLE 0.9 | So much of the memory of a device that PyTorch's
--           allocator holds at its peak is near the limit.
-- @gain     none: it is no time of a step
-- @shown    hbm_utilization_pct
-- @reason   (SELECT why FROM _memory_reasons WHERE what = 'levels')
--           | nothing recorded the levels of the memory of a device
-- @check    (SELECT count(*) FROM ranks WHERE device_memory_bytes > 0) > 0
--           | the trace does not say how much memory a device has
-- @caveat   Only what goes through PyTorch's allocator counts: NCCL, CUDA contexts and other
--           libraries hold more.
-- @source   metrics 2.F hbm_utilization
WITH
    shares AS (
        SELECT
            trace, rank, allocated_bytes, coalesce(reserved_bytes, allocated_bytes) AS held_bytes,
            device_bytes
        FROM _rank_memory
    ),

    near AS (
        SELECT
            trace, rank, allocated_bytes, held_bytes, device_bytes,
            count(*) OVER (PARTITION BY trace) AS rank_count
        FROM shares
        WHERE held_bytes >= $near_limit_ratio * device_bytes
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY held_bytes / device_bytes DESC, rank
        ) = 1
    )

SELECT
    trace,
    printf(
        'the allocator of rank %d holds up to %.2f of %.2f GiB of its device (%.1f %%; %.2f GiB in use at most)%s',
        rank, held_bytes / 1073741824, device_bytes / 1073741824, 100.0 * held_bytes / device_bytes,
        allocated_bytes / 1073741824,
        CASE WHEN rank_count > 1 THEN printf('; %d ranks are as near the limit', rank_count) ELSE '' END
    ) AS finding,
    {rank: rank} AS "where",
    CAST(NULL AS DOUBLE) AS time_per_step_ms,
    CAST(NULL AS DOUBLE) AS gain_ms,
    CAST([] AS VARCHAR[]) AS limits,
    CASE
        WHEN held_bytes - allocated_bytes > 0.2 * held_bytes
            THEN 'much of it is cached and not in use: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True first; then '
        ELSE ''
    END
        || 'recompute activations (torch.utils.checkpoint, Megatron --recompute-activations), shard more (FSDP2 reshard_after_forward=True, ZeRO-3), smaller micro-batches, offload (CPUOffloadPolicy); leave some GiB to NCCL and the CUDA context'
        AS advice,
    'SELECT rank, method, allocated_bytes, reserved_bytes, device_bytes FROM _rank_memory WHERE trace = {trace} ORDER BY rank'
        AS evidence
FROM near
