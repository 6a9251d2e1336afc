-- @view     _memory_step_peaks
-- @summary  Largest number of bytes allocated on each device during each step of its rank: what was
--           there when the step began counts.
-- @materialize session
-- @requires _memory_levels _memory_recordings steps
-- @caveat   Times of snapshots are those of the host's clock since the Unix epoch; steps of a trace
--           without an epoch do not meet them.
WITH
    levels AS (
        SELECT
            l.trace, l.rank, l.source_id, l.device, l.ts_ns, l.place, l.allocated_bytes,
            lead(l.ts_ns) OVER (
                PARTITION BY l.trace, l.rank, l.source_id, l.device ORDER BY l.place
            ) AS next_ns
        FROM _memory_levels AS l
        SEMI JOIN _memory_recordings AS r ON r.trace = l.trace AND r.method = l.method
        WHERE l.allocated_bytes IS NOT NULL AND l.ts_ns IS NOT NULL
    ),

    inside AS (
        SELECT s.trace, s.rank, s.step, s.ts_ns, l.device, l.allocated_bytes
        FROM levels AS l
        ASOF INNER JOIN steps AS s
            ON s.trace = l.trace AND s.rank = l.rank AND s.ts_ns <= l.ts_ns
        WHERE l.ts_ns < s.ts_ns + s.dur_ns
    ),

    -- A level that lasts from before a step into it is there when the step begins.
    starts AS (
        SELECT s.trace, s.rank, s.step, s.ts_ns, r.source_id, r.device
        FROM steps AS s
        INNER JOIN _memory_recordings AS r ON r.trace = s.trace AND r.rank = s.rank
    ),

    lasting AS (
        SELECT
            trace, rank, coalesce(source_id, -1) AS source_key, coalesce(device, -1) AS device_key,
            ts_ns, next_ns, allocated_bytes
        FROM levels
        WHERE next_ns > ts_ns
    ),

    at_start AS (
        SELECT s.trace, s.rank, s.step, s.ts_ns, s.device, l.allocated_bytes
        FROM starts AS s
        ASOF INNER JOIN lasting AS l
            ON l.trace = s.trace
            AND l.rank = s.rank
            AND l.source_key = coalesce(s.source_id, -1)
            AND l.device_key = coalesce(s.device, -1)
            AND l.ts_ns <= s.ts_ns
        WHERE l.next_ns > s.ts_ns
    ),

    known AS (
        SELECT trace, rank, step, ts_ns, device, allocated_bytes
        FROM inside
        UNION ALL
        SELECT trace, rank, step, ts_ns, device, allocated_bytes
        FROM at_start
    )

SELECT trace, rank, step, ts_ns, device, max(allocated_bytes) AS peak_allocated_bytes
FROM known
GROUP BY trace, rank, step, ts_ns, device
