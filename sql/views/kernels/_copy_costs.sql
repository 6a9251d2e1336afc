-- @view     _copy_costs
-- @summary  Copies and sets of each rank by direction, of those that start in a step that counts:
--           how many in a step, how many bytes, and how much of their time no kernel hides.
-- @materialize session
-- @requires device_events busy_intervals _account_windows _account_shares
-- @reads    copies
-- @caveat   Of one step and one device, as _rank_account; copies at the same time count each.
--           pageable: the name says that the memory of the host is not pinned. direction is set for
--           sets, NULL where nothing says one.
WITH
    moves AS (
        SELECT trace, rank, device, direction, name ILIKE '%pageable%' AS pageable, bytes, ts_ns, dur_ns
        FROM copies
        WHERE dur_ns > 0 AND rank IS NOT NULL
        UNION ALL
        SELECT trace, rank, device, 'set', FALSE, bytes, ts_ns, dur_ns
        FROM device_events
        WHERE class = 'set' AND dur_ns > 0 AND rank IS NOT NULL
    ),

    counted AS (
        SELECT
            m.trace, m.rank, coalesce(m.device, -1) AS device_key, m.direction, m.pageable, m.bytes,
            m.ts_ns, least(m.ts_ns + m.dur_ns, w.end_ns) AS end_ns
        FROM moves AS m
        ASOF INNER JOIN _account_windows AS w
            ON w.trace = m.trace AND w.rank = m.rank AND w.start_ns <= m.ts_ns
        WHERE w.is_counted AND m.ts_ns < w.end_ns
    ),

    kernels AS (
        SELECT
            trace, rank, coalesce(device, -1) AS device_key,
            unnest(interval_union(array_agg({start_ns: start_ns, end_ns: end_ns}))) AS span
        FROM busy_intervals
        WHERE class IN ('comm', 'compute') AND rank IS NOT NULL
        GROUP BY trace, rank, device
    ),

    busy AS (
        SELECT
            trace, rank, device_key, span.start_ns AS start_ns, span.end_ns AS end_ns,
            sum(span.end_ns - span.start_ns) OVER (
                PARTITION BY trace, rank, device_key ORDER BY span.start_ns
            ) - (span.end_ns - span.start_ns) AS before_ns
        FROM kernels
    ),

    exposed AS (
        SELECT
            c.trace, c.rank, c.direction, c.pageable, c.bytes, c.end_ns - c.ts_ns AS dur_ns,
            c.end_ns - c.ts_ns
                - coalesce(e.before_ns + least(c.end_ns, e.end_ns) - e.start_ns, 0)
                + coalesce(s.before_ns + least(c.ts_ns, s.end_ns) - s.start_ns, 0) AS exposed_ns
        FROM counted AS c
        ASOF LEFT JOIN busy AS s
            ON s.trace = c.trace AND s.rank = c.rank AND s.device_key = c.device_key
            AND s.start_ns <= c.ts_ns
        ASOF LEFT JOIN busy AS e
            ON e.trace = c.trace AND e.rank = c.rank AND e.device_key = c.device_key
            AND e.start_ns <= c.end_ns
    ),

    sums AS (
        SELECT
            trace, rank, direction, pageable, count(*) AS copy_count, sum(bytes) AS bytes,
            sum(dur_ns) AS dur_ns, sum(exposed_ns) AS exposed_ns
        FROM exposed
        GROUP BY trace, rank, direction, pageable
    )

SELECT
    s.trace, s.rank, s.direction, s.pageable,
    CAST(s.copy_count AS DOUBLE) / w.share_count AS copies_per_step,
    CAST(s.bytes AS DOUBLE) / w.share_count AS bytes_per_step,
    CAST(s.bytes AS DOUBLE) / s.dur_ns AS rate_gb_per_s,
    s.dur_ns / 1e6 / w.share_count AS time_ms, s.exposed_ns / 1e6 / w.share_count AS exposed_ms
FROM sums AS s
INNER JOIN _account_shares AS w ON w.trace = s.trace AND w.rank = s.rank
