-- @view     _memory_step_peaks
-- @summary  Largest number of bytes allocated on each device during each step of its rank: what was there when the step began counts.
-- @materialize session
-- @requires _memory_levels _memory_recordings steps
-- @caveat   Times of snapshots are those of the host's clock since the Unix epoch; steps of a trace without an epoch do not meet them.
WITH
    spans AS (
        SELECT
            l.trace, l.rank, l.source_id, l.device, l.ts_ns, l.allocated_bytes,
            coalesce(
                lead(l.ts_ns) OVER (
                    PARTITION BY l.trace, l.rank, l.source_id, l.device, l.method ORDER BY l.place
                ),
                l.ts_ns + 1
            ) AS end_ns
        FROM _memory_levels AS l
        INNER JOIN _memory_recordings AS r
            ON r.trace = l.trace
            AND r.rank IS NOT DISTINCT FROM l.rank
            AND r.source_id IS NOT DISTINCT FROM l.source_id
            AND r.device IS NOT DISTINCT FROM l.device
            AND r.method = l.method
        WHERE l.allocated_bytes IS NOT NULL AND l.ts_ns IS NOT NULL
    )

SELECT
    s.trace, s.rank, s.step, s.ts_ns, p.device, max(p.allocated_bytes) AS peak_allocated_bytes
FROM steps AS s
INNER JOIN spans AS p
    ON p.trace = s.trace
    AND p.rank IS NOT DISTINCT FROM s.rank
    AND p.ts_ns < s.ts_ns + s.dur_ns
    AND greatest(p.end_ns, p.ts_ns + 1) > s.ts_ns
GROUP BY s.trace, s.rank, s.step, s.ts_ns, p.device
