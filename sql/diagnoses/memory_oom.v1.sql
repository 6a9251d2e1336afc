-- @diagnosis memory_oom
-- @version  1
-- @summary  Allocations failed for want of memory.
-- @profilers memory
-- @reads    memory_events _memory_levels _memory_reasons
-- @gain     none: it is no time of a step
-- @shown    memory_oom
-- @reason   (SELECT why FROM _memory_reasons WHERE what = 'events')
--           | the trace has no memory snapshot with events
-- @source   metrics 5.4 (action oom)
WITH
    failures AS (
        SELECT trace, rank, device, event_id, size, device_free
        FROM memory_events
        WHERE action = 'oom'
    ),

    levels AS (
        SELECT l.trace, l.event_id, l.allocated_bytes, l.reserved_bytes
        FROM _memory_levels AS l
        INNER JOIN failures AS f ON f.trace = l.trace AND f.event_id = l.event_id
    ),

    -- The first of each rank: what follows is the same want.
    firsts AS (
        SELECT
            f.trace, f.rank, f.device, f.size, f.device_free, l.allocated_bytes, l.reserved_bytes,
            count(*) OVER (PARTITION BY f.trace, f.rank) AS failure_count
        FROM failures AS f
        LEFT JOIN levels AS l ON l.trace = f.trace AND l.event_id = f.event_id
        QUALIFY row_number() OVER (PARTITION BY f.trace, f.rank ORDER BY f.event_id) = 1
    )

SELECT
    trace,
    printf('rank %d failed to allocate %.2f GiB on device %d', rank, size / 1073741824, device)
        || coalesce(printf(
            ': %.2f GiB were in use of %.2f GiB that the allocator held',
            allocated_bytes / 1073741824, reserved_bytes / 1073741824
        ), '')
        || coalesce(printf('; the device had %.2f GiB left', device_free / 1073741824), '')
        || CASE WHEN failure_count > 1 THEN printf('; it is the first of %d failures', failure_count)
            ELSE '' END AS finding,
    {rank: rank} AS "where",
    CAST(NULL AS DOUBLE) AS time_per_step_ms,
    CAST(NULL AS DOUBLE) AS gain_ms,
    CAST([] AS VARCHAR[]) AS limits,
    CASE
        WHEN reserved_bytes - allocated_bytes + coalesce(device_free, 0) >= size
            THEN 'what was asked for is free in pieces: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; else '
        ELSE ''
    END
        || 'recompute activations (torch.utils.checkpoint), shard more (FSDP2 reshard_after_forward=True, ZeRO-3), smaller micro-batches, offload (CPUOffloadPolicy)'
        AS advice,
    'SELECT rank, device, ts_ns, size, device_free FROM memory_events WHERE trace = {trace} AND action = ''oom'' ORDER BY rank, event_id'
        AS evidence
FROM firsts
QUALIFY row_number() OVER (PARTITION BY trace ORDER BY failure_count DESC, rank) <= 3
