-- @view     _rank_times
-- @summary  Window of each rank, and how long its devices are busy in it, in all and by class;
--           unions per device, summed over the devices of a rank.
-- @materialize session
-- @requires _windows busy_intervals
-- @caveat   A rank without devices has the window of its host (basis), its communication there
--           (gloo), and nothing else.
WITH
    device_times AS (
        SELECT
            trace, rank, device,
            interval_union_ns(array_agg({start_ns: start_ns, end_ns: end_ns})) AS busy_ns,
            coalesce(interval_union_ns(
                array_agg({start_ns: start_ns, end_ns: end_ns})
                    FILTER (WHERE class IN ('comm', 'compute'))
            ), 0) AS kernel_ns,
            coalesce(interval_overlap_ns(
                array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'comm'),
                array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'compute')
            ), 0) AS overlap_ns,
            coalesce(sum(end_ns - start_ns) FILTER (WHERE class = 'compute'), 0) AS compute_ns,
            coalesce(sum(end_ns - start_ns) FILTER (WHERE class = 'comm'), 0) AS comm_ns,
            coalesce(sum(end_ns - start_ns) FILTER (WHERE class = 'copy'), 0) AS copy_ns,
            coalesce(sum(end_ns - start_ns) FILTER (WHERE class = 'set'), 0) AS set_ns
        FROM busy_intervals
        GROUP BY trace, rank, device
    ),

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
        FROM device_times
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
