-- @view     _share_waits
-- @summary  How much of the wait of each rank in a matched call no compute hides.
-- @materialize session
-- @partition rank
-- @requires _waits
-- @reads    _compute_spans
-- @caveat   Two rows for each share of a call, aligned false and true (see _clock_shifts).
WITH
    waits AS (
        SELECT
            trace, source, collective_id, rank, coalesce(device, -1) AS device_key, ts_ns,
            ts_ns + wait_ns AS end_ns, wait_ns, aligned
        FROM _waits
    )

-- Compute up to the end of the wait, less compute up to its start, hides that much of it.
SELECT
    w.trace, w.source, w.collective_id, w.rank, w.aligned,
    w.wait_ns
        - coalesce(e.before_ns + least(w.end_ns, e.end_ns) - e.start_ns, 0)
        + coalesce(s.before_ns + least(w.ts_ns, s.end_ns) - s.start_ns, 0) AS exposed_ns
FROM waits AS w
ASOF LEFT JOIN _compute_spans AS s
    ON s.trace = w.trace AND s.rank = w.rank AND s.device_key = w.device_key
    AND s.start_ns <= w.ts_ns
ASOF LEFT JOIN _compute_spans AS e
    ON e.trace = w.trace AND e.rank = w.rank AND e.device_key = w.device_key
    AND e.start_ns <= w.end_ns
