-- @view     memory_timeline
-- @summary  Memory of each device over time, to be drawn: the largest level in each of at most 400
--           slices of a recording, fewer where there are more than 75.
-- @requires _memory_levels
-- @reads    _memory_recordings
-- @null     nothing recorded the memory over time (a snapshot with its history, a timeline, or
--           profile_memory=True)
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   device BIGINT dim - | Accelerator.
-- @column   t_ms DOUBLE dim ms | Time since the first event of any recording.
-- @column   allocated_bytes BIGINT value bytes lower | Largest number of bytes allocated in the
--           slice.
-- @column   reserved_bytes BIGINT value bytes lower | Largest number reserved from the device; NULL
--           where the recording does not say.
-- @source   metrics 5.4 and 2.G
WITH
    -- About 30,000 points in all, and at least 20 of each.
    resolutions AS (
        SELECT trace, least(400, greatest(20, 30000 // count(*))) AS slice_count
        FROM _memory_recordings
        GROUP BY trace
    ),

    levels AS (
        SELECT
            l.trace, l.rank, l.source_id, l.device, l.ts_ns, l.allocated_bytes, l.reserved_bytes,
            r.first_ts_ns, r.last_ts_ns, n.slice_count
        FROM _memory_levels AS l
        INNER JOIN _memory_recordings AS r
            ON r.trace = l.trace
            AND r.rank = l.rank
            AND r.source_id IS NOT DISTINCT FROM l.source_id
            AND r.device IS NOT DISTINCT FROM l.device
        INNER JOIN resolutions AS n ON n.trace = l.trace
        WHERE l.ts_ns IS NOT NULL AND l.allocated_bytes IS NOT NULL
    ),

    starts AS (
        SELECT trace, min(ts_ns) AS start_ns
        FROM levels
        GROUP BY trace
    ),

    slices AS (
        SELECT
            trace, rank, source_id, device,
            floor((slice_count - 1) * CAST(ts_ns - first_ts_ns AS DOUBLE) / greatest(last_ts_ns - first_ts_ns, 1))
                AS slice,
            max(ts_ns) AS ts_ns,
            max(allocated_bytes) AS allocated_bytes,
            max(reserved_bytes) AS reserved_bytes
        FROM levels
        GROUP BY trace, rank, source_id, device, slice
    )

SELECT
    s.trace, s.rank, s.device, (s.ts_ns - f.start_ns) / 1e6 AS t_ms, s.allocated_bytes, s.reserved_bytes
FROM slices AS s
INNER JOIN starts AS f ON f.trace = s.trace
ORDER BY s.trace, s.rank, s.device, t_ms, s.source_id
