-- @view     _device_times
-- @summary  How long each device of a rank is busy, in all and by class: unions of its events.
-- @materialize session
-- @partition rank
-- @requires busy_intervals
-- @caveat   device is NULL for what is on no device (gloo), and where no device is said. A kernel
--           is of class comm or compute. exposed_copy_ns is of copies beside which no kernel runs
--           and no graph, exposed_set_ns of sets beside which nothing runs.
WITH
    lists AS (
        SELECT
            trace, rank, device,
            array_agg({start_ns: start_ns, end_ns: end_ns}) AS busy,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'comm') AS comm,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'compute') AS compute,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class IN ('comm', 'compute'))
                AS kernels,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'copy') AS copies,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'set') AS sets,
            array_agg({start_ns: start_ns, end_ns: end_ns})
                FILTER (WHERE class IN ('comm', 'compute', 'graph')) AS work,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class <> 'set') AS others,
            min(start_ns) FILTER (WHERE class IN ('comm', 'compute')) AS kernel_start_ns,
            max(end_ns) FILTER (WHERE class IN ('comm', 'compute')) AS kernel_end_ns,
            sum(end_ns - start_ns) FILTER (WHERE class = 'copy') AS copy_ns,
            sum(end_ns - start_ns) FILTER (WHERE class = 'set') AS set_ns
        FROM busy_intervals
        WHERE rank IS NOT NULL
        GROUP BY trace, rank, device
    )

SELECT
    trace, rank, device,
    interval_union_ns(busy) AS busy_ns,
    coalesce(interval_union_ns(kernels), 0) AS kernel_ns,
    coalesce(interval_overlap_ns(comm, compute), 0) AS overlap_ns,
    coalesce(interval_union_ns(comm), 0) AS comm_ns,
    coalesce(interval_union_ns(compute), 0) AS compute_ns,
    coalesce(copy_ns, 0) AS copy_ns,
    coalesce(set_ns, 0) AS set_ns,
    coalesce(interval_subtract_ns(copies, coalesce(work, [])), 0) AS exposed_copy_ns,
    coalesce(interval_subtract_ns(sets, coalesce(others, [])), 0) AS exposed_set_ns,
    kernel_start_ns, kernel_end_ns
FROM lists
