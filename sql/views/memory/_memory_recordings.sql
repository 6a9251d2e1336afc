-- @view     _memory_recordings
-- @summary  Best recording of the memory of each trace: its snapshots with events, else the
--           timelines, else the samples of Kineto, else snapshots without events; with the peak of
--           each rank, file and device.
-- @materialize session
-- @requires _memory_levels memory_blocks
WITH
    peaks AS (
        SELECT
            trace, rank, source_id, device, method,
            max(allocated_bytes) AS peak_allocated_bytes,
            max(active_bytes) AS peak_active_bytes,
            max(requested_bytes) AS peak_requested_bytes,
            max(reserved_bytes) AS peak_reserved_bytes,
            max(above_start_bytes) AS peak_above_start_bytes,
            min(allocated_bytes) >= 0 AND coalesce(min(active_bytes), 0) >= 0
                AND coalesce(min(reserved_bytes), 0) >= 0 AS consistent,
            max(place) AS event_count,
            min(ts_ns) AS first_ts_ns,
            max(ts_ns) AS last_ts_ns
        FROM _memory_levels
        GROUP BY trace, rank, source_id, device, method
    ),

    -- Snapshots without events say what there was at one moment.
    still AS (
        SELECT DISTINCT b.trace, b.rank, b.source_id, b.device
        FROM memory_blocks AS b
        WHERE NOT EXISTS (
            SELECT 1
            FROM peaks AS p
            WHERE p.trace = b.trace
                AND p.source_id = b.source_id
        )
    ),

    everything AS (
        SELECT
            trace, rank, source_id, device, method, true AS is_played, peak_allocated_bytes,
            peak_active_bytes, peak_requested_bytes, peak_reserved_bytes, peak_above_start_bytes,
            consistent, event_count, first_ts_ns, last_ts_ns
        FROM peaks
        UNION ALL
        SELECT
            trace, rank, source_id, device, 'snapshot', false, NULL, NULL, NULL, NULL, NULL, true, 0,
            NULL, NULL
        FROM still
    ),

    forms AS (
        SELECT
            trace, method,
            dense_rank() OVER (
                PARTITION BY trace
                ORDER BY
                    CASE
                        WHEN method = 'snapshot' AND max(is_played) THEN 1
                        WHEN method = 'timeline' THEN 2
                        WHEN method = 'counters' THEN 3
                        ELSE 4
                    END
            ) AS place
        FROM everything
        GROUP BY trace, method
    )

SELECT
    e.trace, e.rank, e.source_id, e.device, e.method, e.peak_allocated_bytes, e.peak_active_bytes,
    e.peak_requested_bytes, e.peak_reserved_bytes, e.peak_above_start_bytes, e.consistent,
    e.event_count, e.first_ts_ns, e.last_ts_ns
FROM everything AS e
INNER JOIN forms AS f ON f.trace = e.trace AND f.method = e.method AND f.place = 1
