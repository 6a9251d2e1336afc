-- @view     _rank_times
-- @summary  Window, communication, compute, what lies in both, and idle time of each rank, summed over its devices.
-- @requires _busy _windows
WITH
    spans AS (
        SELECT
            trace, rank,
            CAST(sum(coalesce(interval_union_ns(comm), 0)) AS BIGINT) AS comm_ns,
            CAST(sum(coalesce(interval_union_ns(compute), 0)) AS BIGINT) AS compute_ns,
            CAST(sum(coalesce(interval_overlap_ns(comm, compute), 0)) AS BIGINT) AS overlap_ns,
            CAST(sum(interval_union_ns(busy)) AS BIGINT) AS busy_ns
        FROM _busy
        GROUP BY trace, rank
    )

SELECT
    w.trace, w.rank, w.basis,
    -- A rank with several devices has a window on each.
    (w.end_ns - w.start_ns) * greatest(w.device_count, 1) AS window_ns,
    coalesce(s.comm_ns, 0) AS comm_ns,
    coalesce(s.compute_ns, 0) AS compute_ns,
    coalesce(s.overlap_ns, 0) AS overlap_ns,
    coalesce(s.busy_ns, 0) AS busy_ns
FROM _windows AS w
LEFT JOIN spans AS s ON s.trace = w.trace AND s.rank = w.rank
