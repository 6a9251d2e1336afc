-- @view     _step_times
-- @summary  Time of each step that counts: start to next start; the first and last are left out
--           when a rank has more than two.
-- @materialize session
-- @requires steps
WITH
    ordered AS (
        SELECT
            trace, rank, step, ts_ns, dur_ns,
            row_number() OVER (PARTITION BY trace, rank ORDER BY ts_ns, step) AS place,
            count(*) OVER (PARTITION BY trace, rank) AS step_count,
            lead(ts_ns) OVER (PARTITION BY trace, rank ORDER BY ts_ns, step) AS next_ts_ns
        FROM steps
    )

SELECT
    trace, rank, step, step_count > 2 AS trimmed, coalesce(next_ts_ns - ts_ns, dur_ns) AS time_ns
FROM ordered
WHERE step_count <= 2 OR (place > 1 AND place < step_count)
