-- @view     _idle_operators
-- @summary  How long the outermost operators of each rank run while a device has nothing to do
--           because the host has not launched it yet.
-- @materialize session
-- @partition rank
-- @requires _gap_causes host_ranges host_events
-- @caveat   Spans of such waiting of one thread are merged: what two devices wait for counts once.
WITH
    waits AS (
        SELECT
            trace, {rank: rank, pid: pid, tid: tid} AS thread,
            start_ns, start_ns + host_wait_ns AS end_ns
        FROM _gap_causes
        WHERE NOT is_first AND host_wait_ns > 0
    ),

    merged AS (
        SELECT
            trace, thread,
            unnest(interval_union(array_agg({start_ns: start_ns, end_ns: end_ns}))) AS span
        FROM waits
        GROUP BY trace, thread
    ),

    -- How long the host had waited on a thread by the end of each span of waits.
    waited AS (
        SELECT
            trace, thread, span.start_ns AS start_ns, span.end_ns AS end_ns,
            sum(span.end_ns - span.start_ns) OVER (
                PARTITION BY trace, thread ORDER BY span.start_ns ROWS UNBOUNDED PRECEDING
            ) AS waited_ns
        FROM merged
    ),

    operators AS (
        SELECT
            r.trace, {rank: r.rank, pid: r.pid, tid: r.tid} AS thread, h.name, r.ts_ns,
            r.ts_ns + r.dur_ns AS end_ns
        FROM host_ranges AS r
        INNER JOIN host_events AS h ON h.trace = r.trace AND h.event_id = r.event_id
        WHERE r.kind = 'operator'
    ),

    -- The wait during an operator: what had been waited by its end, less that by its start.
    thread_operators AS (
        SELECT
            o.trace, o.thread.rank AS rank, o.name,
            coalesce(e.waited_ns - greatest(e.end_ns - o.end_ns, 0), 0)
            - coalesce(s.waited_ns - greatest(s.end_ns - o.ts_ns, 0), 0) AS wait_ns
        FROM operators AS o
        ASOF LEFT JOIN waited AS s
            ON s.trace = o.trace AND s.thread = o.thread AND s.start_ns <= o.ts_ns
        ASOF LEFT JOIN waited AS e
            ON e.trace = o.trace AND e.thread = o.thread AND e.start_ns <= o.end_ns
    )

SELECT trace, rank, name, sum(wait_ns) AS wait_ns
FROM thread_operators
GROUP BY trace, rank, name
