-- @view     memory_timeline
-- @summary  Memory of each device over time, to be drawn: the largest level in each of at most 400 slices of the recording.
-- @requires _memory_levels
-- @reads    _memory_recordings
-- @null     nothing recorded the memory over time (a snapshot with its history, a timeline, or profile_memory=True)
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   device BIGINT dim - | Accelerator.
-- @column   t_ms DOUBLE dim ms | Time since the first event of any recording.
-- @column   allocated_bytes BIGINT value bytes lower | Largest number of bytes allocated in the slice.
-- @column   reserved_bytes BIGINT value bytes lower | Largest number reserved from the device; NULL where the recording does not say.
-- @source   metrics 5.4 and 2.G
WITH
    levels AS (
        SELECT
            l.trace, l.rank, l.source_id, l.device, l.ts_ns, l.allocated_bytes, l.reserved_bytes,
            r.first_ts_ns, r.last_ts_ns
        FROM _memory_levels AS l
        INNER JOIN _memory_recordings AS r
            ON r.trace = l.trace
            AND r.rank IS NOT DISTINCT FROM l.rank
            AND r.source_id IS NOT DISTINCT FROM l.source_id
            AND r.device IS NOT DISTINCT FROM l.device
            AND r.method = l.method
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
            CAST(floor(399.0 * (ts_ns - first_ts_ns) / greatest(last_ts_ns - first_ts_ns, 1)) AS BIGINT) AS slice,
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
