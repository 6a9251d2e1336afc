-- @metric   memory_allocation_frequency
-- @version  1
-- @area     memory
-- @summary  Allocations of device memory per second, and per step where there are steps.
-- @grain    trace
-- @profilers kineto memory
-- @reads    _memory_requests steps _memory_sources _memory_reasons
-- @value    allocations_per_s
-- @reason   (SELECT why FROM _memory_reasons WHERE what = 'moves')
--           | nothing recorded what the allocator of a device does
-- @null     the recording of the memory has no times, or those of a single moment
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   allocations_per_s DOUBLE value per_s | Allocations / time from the first to the last
--           allocation or free of a rank; mean over ranks.
-- @column   allocations_per_step DOUBLE value - | Allocations during steps / steps of the ranks
--           that have both; all ranks.
-- @column   num_allocations BIGINT value count | Allocations, all ranks.
-- @column   num_frees BIGINT value count | Frees, all ranks.
-- @column   num_segment_allocations BIGINT value count | Segments that were got from the device, or
--           mapped, all ranks.
-- @column   avg_allocation_size_mib DOUBLE value mib | Mean size of an allocation.
-- @column   median_allocation_size_mib DOUBLE value mib | Median size of an allocation.
-- @column   max_allocation_size_mib DOUBLE value mib | Largest allocation.
-- @column   allocated_mib_per_s DOUBLE value - | Bytes of all allocations / time, mean over ranks.
-- @column   per_rank MAP value - | Allocations per second of each rank.
-- @source   metrics 2.G allocation_pattern (defect D55: segments are counted apart)
WITH
    requests AS (
        SELECT trace, rank, ts_ns, size, kind
        FROM _memory_requests
    ),

    ranks AS (
        SELECT
            trace,
            rank,
            count(*) FILTER (WHERE kind = 'allocation' AND ts_ns IS NOT NULL) AS timed_count,
            sum(CASE WHEN kind = 'allocation' AND ts_ns IS NOT NULL THEN size ELSE 0 END) AS bytes,
            (
                max(ts_ns) FILTER (WHERE kind <> 'segment')
                - min(ts_ns) FILTER (WHERE kind <> 'segment')
            ) / 1e9 AS window_s
        FROM requests
        GROUP BY trace, rank
    ),

    rates AS (
        SELECT
            trace,
            avg(timed_count / nullif(window_s, 0) ORDER BY rank) AS per_s,
            avg(bytes / 1048576 / nullif(window_s, 0) ORDER BY rank) AS mib_per_s,
            map(
                array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
                array_agg(timed_count / nullif(window_s, 0) ORDER BY rank)
            ) AS per_rank
        FROM ranks
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace,
            count(*) FILTER (WHERE kind = 'allocation') AS allocation_count,
            count(*) FILTER (WHERE kind = 'free') AS free_count,
            count(*) FILTER (WHERE kind = 'segment') AS segment_count,
            avg(CASE WHEN kind = 'allocation' THEN size END) AS mean_bytes,
            median(CASE WHEN kind = 'allocation' THEN size END) AS median_bytes,
            max(CASE WHEN kind = 'allocation' THEN size END) AS max_bytes
        FROM requests
        GROUP BY trace
    ),

    -- A step counts when something was allocated in it: others lie outside the recording.
    in_steps AS (
        SELECT s.trace, s.rank, s.step, s.ts_ns, count(*) AS allocation_count
        FROM requests AS r
        ASOF INNER JOIN steps AS s
            ON s.trace = r.trace AND s.rank = r.rank AND s.ts_ns <= r.ts_ns
        WHERE r.kind = 'allocation' AND r.ts_ns < s.ts_ns + s.dur_ns
        GROUP BY s.trace, s.rank, s.step, s.ts_ns
    ),

    step_means AS (
        SELECT trace, avg(allocation_count) AS per_step
        FROM in_steps
        GROUP BY trace
    )

SELECT
    t.trace,
    r.per_s AS allocations_per_s,
    m.per_step AS allocations_per_step,
    t.allocation_count AS num_allocations,
    t.free_count AS num_frees,
    t.segment_count AS num_segment_allocations,
    t.mean_bytes / 1048576 AS avg_allocation_size_mib,
    t.median_bytes / 1048576 AS median_allocation_size_mib,
    t.max_bytes / 1048576 AS max_allocation_size_mib,
    r.mib_per_s AS allocated_mib_per_s,
    r.per_rank
FROM totals AS t
INNER JOIN rates AS r ON r.trace = t.trace
LEFT JOIN step_means AS m ON m.trace = t.trace
ORDER BY t.trace
