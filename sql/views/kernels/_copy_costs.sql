-- @view     _copy_costs
-- @summary  Copies and sets of each rank by direction, of those that start in a step that counts:
--           how many in a step, how many bytes, and how much of their time neither kernels nor
--           copies of another direction hide.
-- @materialize session
-- @partition rank
-- @requires device_events busy_intervals _account_windows _account_shares
-- @reads    copies
-- @caveat   Of one step and one device, as _rank_account. time_ms is the union of a direction, so
--           that copies at the same time count once, and rate_gb_per_s that of all of them.
--           exposed_ms is without kernels and copies of other directions; what several directions
--           take at once, without kernels, is the row several: all exposed_ms are the copies that
--           no kernel hides. shared_ms: of a direction, how much of that row it is in. pageable:
--           the name says that the memory of the host is not pinned. direction is set for sets,
--           NULL where nothing says one.
WITH
    moves AS (
        SELECT
            trace, rank, device, direction, coalesce(name ILIKE '%pageable%', FALSE) AS pageable,
            bytes, ts_ns, dur_ns
        FROM copies
        WHERE dur_ns > 0
        UNION ALL
        SELECT trace, rank, device, 'set', FALSE, bytes, ts_ns, dur_ns
        FROM device_events
        WHERE class = 'set' AND dur_ns > 0
    ),

    kinds AS MATERIALIZED (
        SELECT
            m.trace, m.rank, coalesce(m.device, -1) AS device_key, m.direction, m.pageable,
            count(*) AS copy_count, sum(m.bytes) AS bytes,
            array_agg({start_ns: m.ts_ns, end_ns: least(m.ts_ns + m.dur_ns, w.end_ns)}) AS spans
        FROM moves AS m
        ASOF INNER JOIN _account_windows AS w
            ON w.trace = m.trace AND w.rank = m.rank AND w.start_ns <= m.ts_ns
        WHERE w.is_counted AND m.ts_ns < w.end_ns
        GROUP BY m.trace, m.rank, coalesce(m.device, -1), m.direction, m.pageable
    ),

    kernels AS MATERIALIZED (
        SELECT
            trace, rank, coalesce(device, -1) AS device_key,
            array_agg({start_ns: start_ns, end_ns: end_ns}) AS spans
        FROM busy_intervals
        WHERE class IN ('comm', 'compute')
        GROUP BY trace, rank, coalesce(device, -1)
    ),

    others AS (
        SELECT
            k.trace, k.rank, k.device_key, k.direction, k.pageable,
            flatten(array_agg(o.spans)) AS spans
        FROM kinds AS k
        INNER JOIN kinds AS o
            ON o.trace = k.trace AND o.rank = k.rank AND o.device_key = k.device_key
        WHERE o.direction IS DISTINCT FROM k.direction OR o.pageable <> k.pageable
        GROUP BY k.trace, k.rank, k.device_key, k.direction, k.pageable
    ),

    measured AS MATERIALIZED (
        SELECT
            k.trace, k.rank, k.device_key, k.direction, k.pageable, k.copy_count, k.bytes,
            interval_union_ns(k.spans) AS time_ns,
            interval_subtract_ns(k.spans, coalesce(b.spans, [])) AS bare_ns,
            interval_subtract_ns(k.spans, list_concat(b.spans, o.spans)) AS exposed_ns, k.spans
        FROM kinds AS k
        LEFT JOIN kernels AS b
            ON b.trace = k.trace AND b.rank = k.rank AND b.device_key = k.device_key
        LEFT JOIN others AS o
            ON o.trace = k.trace
            AND o.rank = k.rank
            AND o.device_key = k.device_key
            AND o.direction IS NOT DISTINCT FROM k.direction
            AND o.pageable = k.pageable
    ),

    several AS (
        SELECT
            m.trace, m.rank,
            interval_subtract_ns(flatten(array_agg(m.spans)), coalesce(any_value(b.spans), []))
                - sum(m.exposed_ns) AS exposed_ns
        FROM measured AS m
        LEFT JOIN kernels AS b
            ON b.trace = m.trace AND b.rank = m.rank AND b.device_key = m.device_key
        GROUP BY m.trace, m.rank, m.device_key
    ),

    sums AS (
        SELECT
            trace, rank, direction, pageable, sum(copy_count) AS copy_count, sum(bytes) AS bytes,
            sum(time_ns) AS time_ns, sum(exposed_ns) AS exposed_ns,
            sum(bare_ns - exposed_ns) AS shared_ns
        FROM measured
        GROUP BY trace, rank, direction, pageable
        UNION ALL
        SELECT trace, rank, 'several', FALSE, NULL, NULL, NULL, sum(exposed_ns), NULL
        FROM several
        GROUP BY trace, rank
        HAVING sum(exposed_ns) > 0
    )

SELECT
    s.trace, s.rank, s.direction, s.pageable,
    CAST(s.copy_count AS DOUBLE) / w.share_count AS copies_per_step,
    CAST(s.bytes AS DOUBLE) / w.share_count AS bytes_per_step,
    CAST(s.bytes AS DOUBLE) / s.time_ns AS rate_gb_per_s,
    s.time_ns / 1e6 / w.share_count AS time_ms, s.exposed_ns / 1e6 / w.share_count AS exposed_ms,
    s.shared_ns / 1e6 / w.share_count AS shared_ms
FROM sums AS s
INNER JOIN _account_shares AS w ON w.trace = s.trace AND w.rank = s.rank
