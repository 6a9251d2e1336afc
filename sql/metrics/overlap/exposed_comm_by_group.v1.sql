-- @metric   exposed_comm_by_group
-- @version  1
-- @area     overlap
-- @summary  Communication without compute beside it, by process group and parallel dimension: which
--           group costs the time.
-- @grain    trace
-- @requires device_events
-- @reads    _device_times _exposed_parts _windows _kernel_coverage process_groups _device_counts
-- @null     no communication event has a device number
-- @value    exposed_comm_ms
-- @answer   'most in ' || coalesce(nullif(by_group[1].dim, 'unknown') || ', ', '') ||
--           coalesce('group ' || coalesce(by_group[1].pg_desc, by_group[1].pg_name,
--           CAST(by_group[1].pg_id AS VARCHAR)), 'no stated group')
-- @coverage grouped_ratio | the process group
-- @coverage split_ratio | what of the exposed communication is waiting is
-- @check    (SELECT count(*) FROM _device_counts WHERE class = 'other' AND nameless_events > 0) = 0
--           | the names of some kernels are lost, and with them whether they communicate
-- @check    (SELECT count(*) FROM _device_counts WHERE class = 'comm') > 0
--           | the trace has no communication on a device
-- @check    (SELECT count(*) FROM _device_counts WHERE class = 'comm' AND lasting_events > 0) > 0
--           | no communication event on a device has a duration above 0
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   exposed_comm_ms DOUBLE value ms lower | |comm \ compute| of a rank, summed over its
--           devices, mean over the ranks that have a window (one that does not communicate counts
--           as 0); of each rank it is exposed_comm_time_ms of comm_comp_overlap.
-- @column   comm_ms DOUBLE value ms | |comm| of a rank likewise.
-- @column   exposed_transfer_ms DOUBLE value ms lower | What of it is transfer: a call takes its
--           transfer_ns (the least duration over its ranks) at the end of the event of each rank.
--           NULL where no call is matched over the ranks.
-- @column   exposed_wait_ms DOUBLE value ms lower | What of it is waiting: a matched call has begun
--           on the rank, and none transfers.
-- @column   split_ratio DOUBLE value ratio | (exposed_transfer_ms + exposed_wait_ms) /
--           exposed_comm_ms: the rest are calls that are not matched over the ranks.
-- @column   grouped_ratio DOUBLE value ratio | Share of the communication time (sum of durations)
--           whose process group the trace states.
-- @column   by_group LIST value - | Of each process group, most exposed first; pg_id is NULL where
--           none is stated: name, description, dimension, size, ranks that call it, calls of all
--           these ranks, and mean over these ranks of comm_ms, exposed_ms (|comm of the group \
--           compute|), of it exposed_transfer_ms and exposed_wait_ms by the calls of the group, and
--           alone_ms (|comm of the group \ (compute and the comm of other groups)|).
-- @column   by_dim LIST value - | The same of each parallel dimension (dp, tp, pp, ep, cp,
--           unknown), its groups together.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @caveat   What two groups expose at the same time is in exposed_ms of both, and in alone_ms of
--           none. While a call of one group waits and one of another transfers, the trace transfers
--           and the first group waits.
-- @source   metrics 1.5 and 2.E (exposed = |A \ B|, unions per rank and device); dimensions as in
--           traffic_distribution, without those that it only guesses
WITH
    part_means AS (
        SELECT
            trace, level, part,
            count(*) AS ranks,
            TRY_CAST(sum(calls) AS BIGINT) AS calls,
            avg(comm_ms ORDER BY rank) AS comm_ms,
            avg(exposed_ms ORDER BY rank) AS exposed_ms,
            CASE WHEN sum(matched_calls) > 0 THEN avg(transfer_ms ORDER BY rank) END AS transfer_ms,
            CASE WHEN sum(matched_calls) > 0 THEN avg(wait_ms ORDER BY rank) END AS wait_ms,
            avg(alone_ms ORDER BY rank) AS alone_ms
        FROM _exposed_parts
        WHERE level IN ('group', 'dim')
        GROUP BY trace, level, part
    ),

    -- A group whose calls serve several dimensions is of none.
    group_dims AS (
        SELECT
            trace, part, CASE WHEN min(dim) = max(dim) THEN min(dim) ELSE 'unknown' END AS dim
        FROM _exposed_parts
        WHERE level = 'share'
        GROUP BY trace, part
    ),

    group_lists AS (
        SELECT
            p.trace,
            array_agg({
                pg_id: g.pg_id, pg_name: g.pg_name, pg_desc: g.pg_desc,
                dim: d.dim, group_size: g.group_size, ranks: p.ranks,
                calls: p.calls, comm_ms: p.comm_ms, exposed_ms: p.exposed_ms,
                exposed_transfer_ms: p.transfer_ms, exposed_wait_ms: p.wait_ms, alone_ms: p.alone_ms
            } ORDER BY p.exposed_ms DESC, g.pg_id) AS by_group
        FROM part_means AS p
        LEFT JOIN process_groups AS g
            ON g.trace = p.trace AND CAST(g.pg_id AS VARCHAR) = p.part
        INNER JOIN group_dims AS d ON d.trace = p.trace AND d.part = p.part
        WHERE p.level = 'group'
        GROUP BY p.trace
    ),

    dim_lists AS (
        SELECT
            trace,
            array_agg({
                dim: part, ranks: ranks, calls: calls, comm_ms: comm_ms, exposed_ms: exposed_ms,
                exposed_transfer_ms: transfer_ms, exposed_wait_ms: wait_ms, alone_ms: alone_ms
            } ORDER BY exposed_ms DESC, part) AS by_dim
        FROM part_means
        WHERE level = 'dim'
        GROUP BY trace
    ),

    -- Ranks that only compute expose nothing.
    per_rank AS (
        SELECT
            w.trace, w.rank,
            sum(coalesce(t.comm_ns, 0)) / 1e6 AS comm_ms,
            sum(coalesce(t.comm_ns - t.overlap_ns, 0)) / 1e6 AS exposed_ms
        FROM _windows AS w
        LEFT JOIN _device_times AS t
            ON t.trace = w.trace AND t.rank = w.rank AND t.device IS NOT NULL
        GROUP BY w.trace, w.rank
    ),

    rank_means AS (
        SELECT
            r.trace,
            avg(r.comm_ms ORDER BY r.rank) AS comm_ms,
            avg(r.exposed_ms ORDER BY r.rank) AS exposed_comm_ms,
            avg(coalesce(p.transfer_ms, 0) ORDER BY r.rank) AS transfer_ms,
            avg(coalesce(p.wait_ms, 0) ORDER BY r.rank) AS wait_ms,
            sum(p.matched_calls) AS matched_calls
        FROM per_rank AS r
        LEFT JOIN _exposed_parts AS p ON p.trace = r.trace AND p.rank = r.rank AND p.level = 'all'
        GROUP BY r.trace
    ),

    known AS (
        SELECT
            trace,
            sum(dur_ns) FILTER (WHERE part <> '0') AS grouped_ns,
            sum(dur_ns) AS comm_ns
        FROM _exposed_parts
        WHERE level = 'share'
        GROUP BY trace
    )

SELECT
    r.trace, r.exposed_comm_ms, r.comm_ms,
    CASE WHEN r.matched_calls > 0 THEN r.transfer_ms END AS exposed_transfer_ms,
    CASE WHEN r.matched_calls > 0 THEN r.wait_ms END AS exposed_wait_ms,
    (r.transfer_ms + r.wait_ms) / nullif(r.exposed_comm_ms, 0) AS split_ratio,
    coalesce(k.grouped_ns, 0) / nullif(CAST(k.comm_ns AS DOUBLE), 0) AS grouped_ratio,
    g.by_group, d.by_dim
FROM rank_means AS r
INNER JOIN known AS k ON k.trace = r.trace
INNER JOIN group_lists AS g ON g.trace = r.trace
INNER JOIN dim_lists AS d ON d.trace = r.trace
ORDER BY r.trace
