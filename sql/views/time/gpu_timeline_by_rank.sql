-- @view     gpu_timeline_by_rank
-- @summary  What the devices of each rank do with their time: compute, communication and copies
--           that nothing hides, and idling.
-- @materialize session
-- @requires _windows
-- @reads    busy_intervals
-- @null     no rank has a device
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   type VARCHAR dim - | computation_time (kernels that are no communication, and sets),
--           exposed_comm_time (communication without these), exposed_memcpy_time (copies without
--           both), exposed_graph_time (graphs recorded as a whole, without the three; only where
--           there are such), busy_time (anything), idle_time, total_time (first start to last end);
--           beside them total_comm_time and total_memcpy_time, hidden or not.
-- @column   time_ms DOUBLE value ms lower | Time; unions of intervals, summed over the devices of
--           the rank.
-- @column   share_pct DOUBLE value pct | Share of total_time.
-- @heading  time_ms | time ms
-- @heading  share_pct | percent
-- @caveat   Setting memory counts as computation here, as in the tool that set these names; in the
--           metrics it does not.
-- @source   metrics 7.1; computation + exposed_comm + exposed_memcpy (+ exposed_graph) + idle =
--           total
WITH
    lists AS (
        SELECT
            trace, rank, device,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class IN ('compute', 'set')) AS comp,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'comm') AS comm,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'copy') AS copies,
            array_agg({start_ns: start_ns, end_ns: end_ns})
                FILTER (WHERE class IN ('compute', 'set', 'comm')) AS kernels,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class <> 'graph') AS known,
            array_agg({start_ns: start_ns, end_ns: end_ns}) AS busy
        FROM busy_intervals
        GROUP BY trace, rank, device
    ),

    device_times AS (
        SELECT
            trace, rank, device,
            coalesce(interval_union_ns(comp), 0) AS comp_ns,
            interval_union_ns(comm) AS comm_ns,
            interval_union_ns(copies) AS copy_ns,
            interval_union_ns(kernels) AS kernel_ns,
            coalesce(interval_subtract_ns(copies, kernels), interval_union_ns(copies), 0) AS exposed_copy_ns,
            interval_union_ns(busy) - coalesce(interval_union_ns(known), 0) AS exposed_graph_ns,
            interval_union_ns(busy) AS busy_ns
        FROM lists
    ),

    -- A rank whose events take no time idles.
    rank_times AS (
        SELECT
            w.trace, w.rank,
            coalesce(sum(d.comp_ns), 0) AS comp_ns,
            coalesce(sum(d.kernel_ns - d.comp_ns), 0) AS exposed_comm_ns,
            coalesce(sum(d.exposed_copy_ns), 0) AS exposed_copy_ns,
            sum(d.exposed_graph_ns) AS exposed_graph_ns,
            coalesce(sum(d.busy_ns), 0) AS busy_ns,
            coalesce(sum(d.comm_ns), 0) AS comm_ns,
            coalesce(sum(d.copy_ns), 0) AS copy_ns,
            any_value((w.end_ns - w.start_ns) * greatest(w.device_count, 1)) AS total_ns
        FROM _windows AS w
        LEFT JOIN device_times AS d ON d.trace = w.trace AND d.rank = w.rank
        WHERE w.basis = 'device'
        GROUP BY w.trace, w.rank
    ),

    typed AS (
        SELECT
            trace, rank, total_ns,
            unnest([
                {type: 'computation_time', time_ns: comp_ns},
                {type: 'exposed_comm_time', time_ns: exposed_comm_ns},
                {type: 'exposed_memcpy_time', time_ns: exposed_copy_ns},
                {type: 'exposed_graph_time', time_ns: exposed_graph_ns},
                {type: 'busy_time', time_ns: busy_ns},
                {type: 'idle_time', time_ns: total_ns - busy_ns},
                {type: 'total_time', time_ns: total_ns},
                {type: 'total_comm_time', time_ns: comm_ns},
                {type: 'total_memcpy_time', time_ns: copy_ns}
            ]) AS kind
        FROM rank_times
    )

SELECT
    trace, rank, kind.type AS type, kind.time_ns / 1e6 AS time_ms,
    100 * CAST(kind.time_ns AS DOUBLE) / nullif(total_ns, 0) AS share_pct
FROM typed
WHERE kind.type <> 'exposed_graph_time' OR kind.time_ns > 0
ORDER BY
    trace, rank,
    list_position([
        'computation_time', 'exposed_comm_time', 'exposed_memcpy_time', 'exposed_graph_time',
        'busy_time', 'idle_time', 'total_time', 'total_comm_time', 'total_memcpy_time'
    ], kind.type)
