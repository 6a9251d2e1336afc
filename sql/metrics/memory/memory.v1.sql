-- @metric   memory
-- @version  1
-- @area     memory
-- @summary  Largest number of bytes that PyTorch had allocated on a device at a time, over ranks
--           and devices, and what else its snapshots say.
-- @grain    trace
-- @profilers kineto memory
-- @reads    _memory_recordings _memory_state _memory_ratios _memory_requests _memory_alive
--           _memory_stack_names _memory_step_peaks memory_blocks memory_segments memory_events
--           metadata _memory_sources _memory_reasons
-- @value    peak_allocated_gib
-- @reason   (SELECT why FROM _memory_reasons WHERE what = 'device')
--           | nothing recorded the memory of a device
-- @null     the memory snapshots hold no events and the memory samples no totals, so that no level
--           before the end is known
-- @alias    peak_memory_gib
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   peak_allocated_gib DOUBLE value gib lower | Largest over ranks and devices of the bytes
--           allocated at a time: those of blocks, rounded up to 512 bytes, as
--           torch.cuda.memory_allocated has them. Never below current_allocated_gib.
-- @column   peak_requested_gib DOUBLE value gib lower | The same of the bytes that were asked for;
--           NULL where the recording does not say.
-- @column   method VARCHAR value - | snapshot (events of a memory snapshot played back from its
--           end), timeline (raw timeline of the profiler, bytes of tensors), or counters (samples
--           of Kineto), in this order of trust.
-- @column   peak_active_gib DOUBLE value gib lower | The same with what waits for a stream before
--           it is free.
-- @column   peak_reserved_gib DOUBLE value gib lower | The same of the segments that the allocator
--           held.
-- @column   peak_above_start_gib DOUBLE value gib lower | Largest rise above what was allocated
--           when the recording began; known even where that is not.
-- @column   window_s DOUBLE value s | Time from the first to the last event of a recording, the
--           longest over ranks and devices: the peaks are of that window.
-- @column   current_allocated_gib DOUBLE value gib | Allocated when the snapshot was taken, bytes
--           of blocks as in peak_allocated_gib, the largest over ranks and devices.
-- @column   current_active_gib DOUBLE value gib | Active when the snapshot was taken, likewise.
-- @column   current_reserved_gib DOUBLE value gib | Reserved when the snapshot was taken, likewise.
-- @column   current_requested_gib DOUBLE value gib | Asked for and still in use when the snapshot
--           was taken, likewise.
-- @column   active_over_allocated DOUBLE value ratio | Active / allocated bytes at the snapshot,
--           mean over ranks: 1 where nothing waits for a stream.
-- @column   requested_over_reserved DOUBLE value ratio higher | Requested / reserved bytes at the
--           snapshot, mean over ranks.
-- @column   external_fragmentation_ratio DOUBLE value ratio lower | (reserved - allocated) /
--           reserved at the snapshot, mean over ranks.
-- @column   internal_fragmentation_ratio DOUBLE value ratio lower | (active - requested) / active
--           at the snapshot, mean over ranks.
-- @column   scattered_ratio DOUBLE value ratio lower | 1 - largest free block / all free blocks at
--           the snapshot, mean over ranks.
-- @column   num_segments BIGINT value count | Segments, all ranks.
-- @column   num_blocks BIGINT value count | Blocks, all ranks.
-- @column   block_states MAP value - | Blocks by state.
-- @column   avg_segment_size_mib DOUBLE value mib | Mean size of a segment.
-- @column   max_segment_size_mib DOUBLE value mib | Largest segment.
-- @column   min_segment_size_mib DOUBLE value mib | Smallest segment.
-- @column   num_allocations BIGINT value count | Allocations in the recordings, all ranks.
-- @column   num_frees BIGINT value count | Frees that were completed, all ranks.
-- @column   num_segment_allocations BIGINT value count | Segments that were got from the device, or
--           mapped, all ranks.
-- @column   avg_allocation_size_mib DOUBLE value mib | Mean size of an allocation.
-- @column   max_allocation_size_mib DOUBLE value mib | Largest allocation.
-- @column   oom_events BIGINT value count | Allocations that failed.
-- @column   allocator_settings MAP value - | Settings of the allocator, of the lowest rank that
--           says them.
-- @column   per_rank MAP value gib | Peak of each rank.
-- @column   per_device LIST value - | Per rank, file and device: peaks, what there was at the
--           snapshot, events.
-- @column   per_step LIST value - | Per rank, step and device: peak during the step.
-- @column   top_stacks LIST value - | What was allocated at the highest peak, by call stack: the 20
--           largest.
-- @column   consistent BOOLEAN value - | Whether no level of any recording is below zero; if not,
--           events are missing.
-- @caveat   Only what goes through PyTorch's allocator counts: NCCL, CUDA contexts and other
--           libraries are not in it. The peak is that of the recording, which may begin late.
-- @caveat   Events of a snapshot say what was asked for. The block of an allocation that is gone at
--           the end counts as that, rounded up to 512 bytes; what the allocator gave beyond that
--           (below 1 MiB a block) is not known.
-- @source   metrics 2.G (defects D53 to D55), formats_kineto section 11
WITH
    recordings AS (
        SELECT
            trace, rank, source_id, device, method, peak_allocated_bytes, peak_active_bytes,
            peak_requested_bytes, peak_reserved_bytes, peak_above_start_bytes, consistent, event_count,
            first_ts_ns, last_ts_ns
        FROM _memory_recordings
    ),

    peaks AS (
        SELECT
            trace,
            max(peak_allocated_bytes) AS allocated_bytes,
            max(peak_active_bytes) AS active_bytes,
            max(peak_requested_bytes) AS requested_bytes,
            max(peak_reserved_bytes) AS reserved_bytes,
            max(peak_above_start_bytes) AS above_start_bytes,
            max(last_ts_ns - first_ts_ns) AS window_ns,
            min(method) AS method,
            min(CAST(consistent AS BIGINT)) = 1 AS consistent
        FROM recordings
        GROUP BY trace
    ),

    rank_peaks AS (
        SELECT trace, rank, max(peak_allocated_bytes) AS peak_bytes
        FROM recordings
        GROUP BY trace, rank
    ),

    rank_maps AS (
        SELECT
            trace,
            map(
                array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
                array_agg(peak_bytes / 1073741824 ORDER BY rank)
            ) AS per_rank
        FROM rank_peaks
        GROUP BY trace
    ),

    states AS (
        SELECT
            trace,
            max(allocated_bytes) AS allocated_bytes,
            max(active_bytes) AS active_bytes,
            max(reserved_bytes) AS reserved_bytes,
            max(requested_bytes) AS requested_bytes,
            sum(segment_count) AS segment_count,
            sum(block_count) AS block_count,
            sum(reserved_bytes) / sum(segment_count) AS mean_segment_bytes,
            max(max_segment_bytes) AS max_segment_bytes,
            min(min_segment_bytes) AS min_segment_bytes
        FROM _memory_state
        GROUP BY trace
    ),

    ratios AS (
        SELECT
            trace,
            avg(active_over_allocated) AS active_over_allocated,
            avg(requested_over_reserved) AS requested_over_reserved,
            avg(external_ratio) AS external_ratio,
            avg(internal_ratio) AS internal_ratio,
            avg(scattered_ratio) AS scattered_ratio
        FROM _memory_ratios
        GROUP BY trace
    ),

    state_counts AS (
        SELECT b.trace, b.state, count(*) AS block_count
        FROM memory_blocks AS b
        INNER JOIN (SELECT DISTINCT trace, rank, source_id FROM _memory_state) AS s
            ON s.trace = b.trace
            AND s.rank IS NOT DISTINCT FROM b.rank
            AND s.source_id = b.source_id
        WHERE b.state IS NOT NULL
        GROUP BY b.trace, b.state
    ),

    state_maps AS (
        SELECT
            trace,
            map(array_agg(state ORDER BY state), array_agg(block_count ORDER BY state)) AS block_states
        FROM state_counts
        GROUP BY trace
    ),

    requests AS (
        SELECT
            trace,
            count(*) FILTER (WHERE kind = 'allocation') AS allocation_count,
            count(*) FILTER (WHERE kind = 'free') AS free_count,
            count(*) FILTER (WHERE kind = 'segment') AS segment_count,
            avg(CASE WHEN kind = 'allocation' THEN size END) AS mean_bytes,
            max(CASE WHEN kind = 'allocation' THEN size END) AS max_bytes
        FROM _memory_requests
        GROUP BY trace
    ),

    -- Without recorded events nobody knows how many allocations there were.
    failures AS (
        SELECT trace, count(*) FILTER (WHERE action = 'oom') AS oom_count, 0 AS least_count
        FROM memory_events
        GROUP BY trace
    ),

    settings AS (
        SELECT trace, rank, substr(key, 27) AS setting, min(value) AS value
        FROM metadata
        WHERE key LIKE 'memory.allocator\_settings.%' ESCAPE '\'
        GROUP BY trace, rank, key
        QUALIFY rank IS NOT DISTINCT FROM min(rank) OVER (PARTITION BY trace)
    ),

    setting_maps AS (
        SELECT
            trace,
            map(array_agg(setting ORDER BY setting), array_agg(value ORDER BY setting))
                AS allocator_settings
        FROM settings
        GROUP BY trace
    ),

    devices AS (
        SELECT
            r.trace,
            array_agg(
                {
                    rank: r.rank,
                    source_id: r.source_id,
                    device: r.device,
                    peak_allocated_gib: r.peak_allocated_bytes / 1073741824,
                    peak_requested_gib: r.peak_requested_bytes / 1073741824,
                    peak_active_gib: r.peak_active_bytes / 1073741824,
                    peak_reserved_gib: r.peak_reserved_bytes / 1073741824,
                    current_allocated_gib: s.allocated_bytes / 1073741824,
                    current_active_gib: s.active_bytes / 1073741824,
                    current_reserved_gib: s.reserved_bytes / 1073741824,
                    current_requested_gib: s.requested_bytes / 1073741824,
                    num_segments: s.segment_count,
                    num_blocks: s.block_count,
                    events: r.event_count
                }
                ORDER BY r.rank, r.source_id, r.device
            ) AS per_device
        FROM recordings AS r
        LEFT JOIN _memory_state AS s
            ON s.trace = r.trace
            AND s.rank IS NOT DISTINCT FROM r.rank
            AND s.source_id = r.source_id
            AND s.device IS NOT DISTINCT FROM r.device
        GROUP BY r.trace
    ),

    steps AS (
        SELECT
            trace,
            array_agg(
                {
                    rank: rank,
                    step: step,
                    device: device,
                    peak_allocated_gib: peak_allocated_bytes / 1073741824
                }
                ORDER BY rank, ts_ns, step, device
            ) AS per_step
        FROM _memory_step_peaks
        GROUP BY trace
    ),

    highest AS (
        SELECT trace, rank, source_id, device
        FROM recordings
        WHERE peak_allocated_bytes IS NOT NULL AND method = 'snapshot'
        QUALIFY
            row_number() OVER (
                PARTITION BY trace ORDER BY peak_allocated_bytes DESC, rank, source_id, device
            ) = 1
    ),

    stacks AS (
        SELECT
            a.trace, a.rank, a.device, a.stack_id, a.alive_bytes, a.allocation_count, n.frames,
            row_number() OVER (PARTITION BY a.trace ORDER BY a.alive_bytes DESC, a.stack_id) AS place
        FROM _memory_alive AS a
        INNER JOIN highest AS h
            ON h.trace = a.trace
            AND h.rank IS NOT DISTINCT FROM a.rank
            AND h.source_id = a.source_id
            AND h.device IS NOT DISTINCT FROM a.device
        LEFT JOIN _memory_stack_names AS n ON n.trace = a.trace AND n.stack_id = a.stack_id
        WHERE a.moment = 'peak'
    ),

    stack_lists AS (
        SELECT
            trace,
            array_agg(
                {
                    rank: rank,
                    device: device,
                    alive_bytes: alive_bytes,
                    allocations: allocation_count,
                    frames: frames
                }
                ORDER BY place
            ) AS top_stacks
        FROM stacks
        WHERE place <= 20
        GROUP BY trace
    )

SELECT
    p.trace,
    -- A rank whose snapshot has no events may have held more at the end than others ever did.
    CASE
        WHEN s.allocated_bytes > p.allocated_bytes THEN s.allocated_bytes
        ELSE p.allocated_bytes
    END / 1073741824 AS peak_allocated_gib,
    CASE
        WHEN s.requested_bytes > p.requested_bytes THEN s.requested_bytes
        ELSE p.requested_bytes
    END / 1073741824 AS peak_requested_gib,
    p.method,
    CASE
        WHEN s.active_bytes > p.active_bytes THEN s.active_bytes
        ELSE p.active_bytes
    END / 1073741824 AS peak_active_gib,
    CASE
        WHEN s.reserved_bytes > p.reserved_bytes THEN s.reserved_bytes
        ELSE p.reserved_bytes
    END / 1073741824 AS peak_reserved_gib,
    p.above_start_bytes / 1073741824 AS peak_above_start_gib,
    p.window_ns / 1e9 AS window_s,
    s.allocated_bytes / 1073741824 AS current_allocated_gib,
    s.active_bytes / 1073741824 AS current_active_gib,
    s.reserved_bytes / 1073741824 AS current_reserved_gib,
    s.requested_bytes / 1073741824 AS current_requested_gib,
    r.active_over_allocated,
    r.requested_over_reserved,
    r.external_ratio AS external_fragmentation_ratio,
    r.internal_ratio AS internal_fragmentation_ratio,
    r.scattered_ratio,
    TRY_CAST(s.segment_count AS BIGINT) AS num_segments,
    TRY_CAST(s.block_count AS BIGINT) AS num_blocks,
    b.block_states,
    s.mean_segment_bytes / 1048576 AS avg_segment_size_mib,
    s.max_segment_bytes / 1048576 AS max_segment_size_mib,
    s.min_segment_bytes / 1048576 AS min_segment_size_mib,
    coalesce(q.allocation_count, f.least_count) AS num_allocations,
    coalesce(q.free_count, f.least_count) AS num_frees,
    coalesce(q.segment_count, f.least_count) AS num_segment_allocations,
    q.mean_bytes / 1048576 AS avg_allocation_size_mib,
    q.max_bytes / 1048576 AS max_allocation_size_mib,
    f.oom_count AS oom_events,
    a.allocator_settings,
    m.per_rank,
    d.per_device,
    t.per_step,
    k.top_stacks,
    p.consistent
FROM peaks AS p
LEFT JOIN rank_maps AS m ON m.trace = p.trace
LEFT JOIN states AS s ON s.trace = p.trace
LEFT JOIN ratios AS r ON r.trace = p.trace
LEFT JOIN state_maps AS b ON b.trace = p.trace
LEFT JOIN requests AS q ON q.trace = p.trace
LEFT JOIN failures AS f ON f.trace = p.trace
LEFT JOIN setting_maps AS a ON a.trace = p.trace
LEFT JOIN devices AS d ON d.trace = p.trace
LEFT JOIN steps AS t ON t.trace = p.trace
LEFT JOIN stack_lists AS k ON k.trace = p.trace
ORDER BY p.trace
