-- @view     _rank_times
-- @summary  Window of each rank, and how long its devices are busy in it, in all and by class;
--           unions per device, summed over the devices of a rank.
-- @materialize session
-- @requires _windows _device_times
-- @caveat   A rank without devices has the window of its host (basis), its communication there
--           (gloo), and nothing else.
WITH
    rank_times AS (
        SELECT
            trace, rank,
            sum(busy_ns) AS busy_ns,
            sum(kernel_ns) AS kernel_ns,
            sum(overlap_ns) AS overlap_ns,
            sum(compute_ns) AS compute_ns,
            sum(comm_ns) AS comm_ns,
            sum(copy_ns) AS copy_ns,
            sum(set_ns) AS set_ns
        FROM _device_times
        GROUP BY trace, rank
    )

SELECT
    w.trace, w.rank, w.basis, w.start_ns, w.end_ns,
    -- What no device number says is on one device; a rank with several has a window on each.
    greatest(w.device_count, 1) AS device_count,
    (w.end_ns - w.start_ns) * greatest(w.device_count, 1) AS window_ns,
    TRY_CAST(coalesce(t.comm_ns, 0) AS BIGINT) AS comm_ns,
    CASE WHEN w.basis = 'device' THEN TRY_CAST(coalesce(t.busy_ns, 0) AS BIGINT) END AS busy_ns,
    CASE WHEN w.basis = 'device' THEN TRY_CAST(coalesce(t.kernel_ns, 0) AS BIGINT) END AS kernel_ns,
    CASE WHEN w.basis = 'device' THEN TRY_CAST(coalesce(t.overlap_ns, 0) AS BIGINT) END AS overlap_ns,
    CASE WHEN w.basis = 'device' THEN TRY_CAST(coalesce(t.compute_ns, 0) AS BIGINT) END AS compute_ns,
    CASE WHEN w.basis = 'device' THEN TRY_CAST(coalesce(t.copy_ns, 0) AS BIGINT) END AS copy_ns,
    CASE WHEN w.basis = 'device' THEN TRY_CAST(coalesce(t.set_ns, 0) AS BIGINT) END AS set_ns
FROM _windows AS w
LEFT JOIN rank_times AS t ON t.trace = w.trace AND t.rank = w.rank
