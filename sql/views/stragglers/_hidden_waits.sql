-- @view     _hidden_waits
-- @summary  How much of the wait of a rank in a matched call its compute hides: by the clocks as
--           recorded, and with their offsets taken away.
-- @materialize session
-- @partition rank
-- @requires _waits
-- @reads    _compute_spans
-- @caveat   Shares of calls of which nothing is hidden have no row.
WITH
    waits AS (
        SELECT
            trace, collective_id, rank, coalesce(device, -1) AS device_key, ts_ns,
            ts_ns + wait_ns AS end_ns, aligned
        FROM _waits
        WHERE wait_ns > 0
    ),

    -- Compute up to the end of the wait, less compute up to its start.
    hidden AS (
        SELECT
            w.trace, w.collective_id, w.rank, w.aligned,
            coalesce(e.before_ns + least(w.end_ns, e.end_ns) - e.start_ns, 0)
                - coalesce(s.before_ns + least(w.ts_ns, s.end_ns) - s.start_ns, 0) AS hidden_ns
        FROM waits AS w
        ASOF LEFT JOIN _compute_spans AS s
            ON s.trace = w.trace AND s.rank = w.rank AND s.device_key = w.device_key
            AND s.start_ns <= w.ts_ns
        ASOF LEFT JOIN _compute_spans AS e
            ON e.trace = w.trace AND e.rank = w.rank AND e.device_key = w.device_key
            AND e.start_ns <= w.end_ns
    )

SELECT
    trace, collective_id, rank,
    TRY_CAST(max(hidden_ns) FILTER (WHERE NOT aligned) AS BIGINT) AS recorded_ns,
    TRY_CAST(max(hidden_ns) FILTER (WHERE aligned) AS BIGINT) AS aligned_ns
FROM hidden
WHERE hidden_ns > 0
GROUP BY trace, collective_id, rank
