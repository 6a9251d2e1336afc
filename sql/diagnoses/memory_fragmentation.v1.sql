-- @diagnosis memory_fragmentation
-- @version  1
-- @summary  PyTorch's allocator holds much more memory than was ever in use at a time: its free
--           blocks do not fit what is asked for.
-- @profilers kineto memory
-- @requires _memory_recordings
-- @reads    _memory_reasons ranks metadata
-- @param    unused_ratio DOUBLE 0.2 | Share of the memory that the allocator holds at its peak and
--           that was never in use at a time, from which on it is said.
-- @param    unused_of_device_ratio DOUBLE 0.05 | The same, of the memory of the device.
-- @param    unused_gib DOUBLE 1 | The same in GiB, where the memory of the device is not known.
-- @gain     none: it is no time of a step
-- @shown    memory_fragmentation
-- @reason   (SELECT why FROM _memory_reasons WHERE what = 'levels')
--           | nothing recorded the levels of the memory of a device
-- @check    (SELECT count(peak_reserved_bytes) FROM _memory_recordings) > 0
--           | what recorded the memory does not say what the allocator held
-- @caveat   Peaks are of the recording: what was in use before it began may have been more. After
--           torch.cuda.empty_cache what is held sinks, and this with it.
-- @source   metrics 2.G fragmentation, at the peaks: after a step most memory is free and no fault
WITH
    sizes AS (
        SELECT trace, rank, max(device_memory_bytes) AS device_bytes
        FROM ranks
        WHERE device_memory_bytes > 0
        GROUP BY trace, rank
    ),

    settings AS (
        SELECT trace, bool_and(lower(value) = 'true') AS is_expandable
        FROM metadata
        WHERE key = 'memory.allocator_settings.expandable_segments'
        GROUP BY trace
    ),

    held AS (
        SELECT
            m.trace, m.rank, m.device, m.peak_reserved_bytes AS reserved_bytes,
            coalesce(m.peak_active_bytes, m.peak_allocated_bytes) AS used_bytes, s.device_bytes,
            coalesce(t.is_expandable, FALSE) AS is_expandable
        FROM _memory_recordings AS m
        LEFT JOIN sizes AS s ON s.trace = m.trace AND s.rank = m.rank
        LEFT JOIN settings AS t ON t.trace = m.trace
        WHERE m.consistent AND m.event_count > 0
    ),

    worst AS (
        SELECT
            trace, rank, device, reserved_bytes, used_bytes, is_expandable,
            count(DISTINCT rank) OVER (PARTITION BY trace) AS rank_count
        FROM held
        WHERE reserved_bytes - used_bytes >= $unused_ratio * reserved_bytes
            AND reserved_bytes - used_bytes
                >= coalesce($unused_of_device_ratio * device_bytes, $unused_gib * 1073741824)
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY reserved_bytes - used_bytes DESC, rank, device
        ) = 1
    )

SELECT
    trace,
    printf(
        'the allocator of rank %d holds up to %.2f GiB and never uses more than %.2f GiB of it at a time: %.1f %% are unused%s',
        rank, reserved_bytes / 1073741824, used_bytes / 1073741824,
        100.0 * (reserved_bytes - used_bytes) / reserved_bytes,
        CASE WHEN rank_count > 1 THEN printf('; so it is on %d ranks', rank_count) ELSE '' END
    ) AS finding,
    {rank: rank} AS "where",
    CAST(NULL AS DOUBLE) AS time_per_step_ms,
    CAST(NULL AS DOUBLE) AS gain_ms,
    CAST([] AS VARCHAR[]) AS limits,
    CASE
        WHEN is_expandable
            THEN 'expandable_segments is on already: make sizes alike from step to step (pad sequences to few lengths), avoid allocations on many streams (record_stream), set garbage_collection_threshold in PYTORCH_CUDA_ALLOC_CONF'
        ELSE 'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; else make sizes alike from step to step (pad sequences to few lengths), or max_split_size_mb in the same variable'
    END AS advice,
    'SELECT rank, device, method, peak_allocated_bytes, peak_active_bytes, peak_reserved_bytes FROM _memory_recordings WHERE trace = {trace} ORDER BY rank, device'
        AS evidence
FROM worst
