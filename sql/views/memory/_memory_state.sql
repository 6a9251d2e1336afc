-- @view     _memory_state
-- @summary  What PyTorch's allocator held on each device when the last snapshot of the rank was
--           taken.
-- @requires memory_segments memory_blocks memory_events
WITH
    moments AS (
        SELECT trace, source_id, max(ts_ns) AS last_ts_ns
        FROM memory_events
        GROUP BY trace, source_id
    ),

    last_files AS (
        SELECT s.trace, s.source_id
        FROM memory_segments AS s
        LEFT JOIN moments AS m ON m.trace = s.trace AND m.source_id = s.source_id
        QUALIFY
            row_number() OVER (
                PARTITION BY s.trace, s.rank ORDER BY m.last_ts_ns DESC NULLS LAST, s.source_id DESC
            ) = 1
    ),

    segments AS (
        SELECT
            s.trace, s.rank, s.source_id, s.device, sum(s.total_size) AS reserved_bytes,
            sum(s.allocated_size) AS allocated_bytes, sum(s.active_size) AS active_bytes,
            count(*) AS segment_count, min(s.total_size) AS min_segment_bytes,
            max(s.total_size) AS max_segment_bytes
        FROM memory_segments AS s
        INNER JOIN last_files AS f ON f.trace = s.trace AND f.source_id = s.source_id
        GROUP BY s.trace, s.rank, s.source_id, s.device
    ),

    blocks AS (
        SELECT
            trace, source_id, device, count(*) AS block_count,
            -- Unknown as a whole where it is unknown of any block in use.
            CASE
                WHEN count(*) FILTER (WHERE state LIKE 'active%' AND requested_size IS NULL) = 0
                    THEN coalesce(sum(requested_size) FILTER (WHERE state LIKE 'active%'), 0)
            END AS requested_bytes,
            sum(size) FILTER (WHERE state = 'inactive') AS inactive_bytes,
            max(size) FILTER (WHERE state = 'inactive') AS largest_inactive_bytes
        FROM memory_blocks
        GROUP BY trace, source_id, device
    )

SELECT
    s.trace, s.rank, s.source_id, s.device, s.reserved_bytes, s.allocated_bytes, s.active_bytes,
    b.requested_bytes, s.segment_count, s.min_segment_bytes, s.max_segment_bytes,
    coalesce(b.block_count, 0) AS block_count, coalesce(b.inactive_bytes, 0) AS inactive_bytes,
    coalesce(b.largest_inactive_bytes, 0) AS largest_inactive_bytes
FROM segments AS s
LEFT JOIN blocks AS b
    ON b.trace = s.trace
    AND b.source_id = s.source_id
    AND b.device IS NOT DISTINCT FROM s.device
