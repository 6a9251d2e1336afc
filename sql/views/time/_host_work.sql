-- @view     _host_work
-- @summary  How long the host of a rank is at work before each matched call, and how often it waits
--           for the device.
-- @materialize session
-- @partition rank
-- @requires _launch_calls _call_spans
-- @reads    _blocking_calls
-- @caveat   Work is what lies between the launch of the call before, or the first of the rank, and
--           that of this one, in no call of a launching thread that waits for the device: it is the
--           same whether other ranks hold up the device or not. Sums over the devices of a rank, of
--           the steps that count.
WITH
    threads AS (
        SELECT
            trace, rank, coalesce(pid, -1) AS pid, coalesce(tid, -1) AS tid,
            min(launched_ns) AS first_ns
        FROM _launch_calls
        GROUP BY trace, rank, coalesce(pid, -1), coalesce(tid, -1)
    ),

    blocks AS MATERIALIZED (
        SELECT b.trace, b.rank, b.ts_ns, b.end_ns
        FROM _blocking_calls AS b
        INNER JOIN threads AS t
            ON t.trace = b.trace
            AND t.rank = b.rank
            AND t.pid = coalesce(b.pid, -1)
            AND t.tid = coalesce(b.tid, -1)
        WHERE (b.waits OR b.copy_end_ns IS NOT NULL) AND b.end_ns > b.ts_ns
    ),

    -- Calls that wait, as spans that do not overlap, with how long the host waited before each.
    spans AS (
        SELECT
            trace, rank, span.start_ns AS start_ns, span.end_ns AS end_ns,
            sum(span.end_ns - span.start_ns) OVER (PARTITION BY trace, rank ORDER BY span.start_ns)
                - (span.end_ns - span.start_ns) AS before_ns
        FROM (
            SELECT
                trace, rank,
                unnest(interval_union(array_agg({start_ns: ts_ns, end_ns: end_ns}))) AS span
            FROM blocks
            GROUP BY trace, rank
        )
    ),

    counts AS (
        SELECT
            trace, rank, ts_ns, row_number() OVER (PARTITION BY trace, rank ORDER BY ts_ns) AS wait_count
        FROM blocks
    ),

    bounds AS (
        SELECT
            c.trace, c.rank, c.place, c.call, c.launch_ns,
            least(coalesce(c.before_ns, f.first_ns), c.launch_ns) AS before_ns
        FROM _call_spans AS c
        INNER JOIN (
            SELECT trace, rank, min(first_ns) AS first_ns FROM threads GROUP BY trace, rank
        ) AS f ON f.trace = c.trace AND f.rank = c.rank
        WHERE c.is_counted
    )

SELECT
    b.trace, b.rank, b.place, b.call,
    sum(
        b.launch_ns - b.before_ns
            - coalesce(e.before_ns + least(b.launch_ns, e.end_ns) - e.start_ns, 0)
            + coalesce(s.before_ns + least(b.before_ns, s.end_ns) - s.start_ns, 0)
    ) AS work_ns,
    sum(coalesce(n.wait_count, 0) - coalesce(m.wait_count, 0)) AS wait_count
FROM bounds AS b
ASOF LEFT JOIN spans AS s
    ON s.trace = b.trace AND s.rank = b.rank AND s.start_ns <= b.before_ns
ASOF LEFT JOIN spans AS e
    ON e.trace = b.trace AND e.rank = b.rank AND e.start_ns <= b.launch_ns
ASOF LEFT JOIN counts AS m
    ON m.trace = b.trace AND m.rank = b.rank AND m.ts_ns < b.before_ns
ASOF LEFT JOIN counts AS n
    ON n.trace = b.trace AND n.rank = b.rank AND n.ts_ns < b.launch_ns
GROUP BY b.trace, b.rank, b.place, b.call
