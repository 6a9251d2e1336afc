-- @view     _call_spans
-- @summary  The matched calls of each rank in the order of their launches, with the call before:
--           what lies between two calls is compared over the ranks.
-- @materialize session
-- @requires _account_windows collectives
-- @reads    _launch_calls
-- @caveat   place is that of the step that launched the call, call counts the calls of the step
--           from 1 on; 0 for all of a step in which the ranks do not launch the same kinds of
--           calls, with the same sizes where they are all-reduces, one after the other. launch_ns
--           is of the host; where the launch is not known, it is the start. before_ns is that of
--           the call before.
WITH
    windows AS (
        SELECT
            trace, rank, place, is_counted,
            -- What the host launches before the first start on its devices is of the trace too.
            CASE WHEN per = 'trace' THEN -9223372036854775808 ELSE start_ns END AS start_ns,
            CASE WHEN per = 'step' THEN end_ns END AS end_ns
        FROM _account_windows
    ),

    calls AS (
        SELECT
            c.trace, c.rank, coalesce(c.device, -1) AS device_key, c.event_id, c.ts_ns,
            hash(c.collective, CASE WHEN c.collective = 'all_reduce' THEN c.message_bytes END) AS kind,
            coalesce(l.launch_ts_ns, c.ts_ns) AS launch_ns
        FROM collectives AS c
        LEFT JOIN _launch_calls AS l ON l.trace = c.trace AND l.event_id = c.event_id
        WHERE c.collective_id IS NOT NULL
    ),

    placed AS (
        SELECT
            c.trace, c.rank, c.device_key, c.event_id, c.kind, c.ts_ns, c.launch_ns,
            coalesce(w.place, 0) AS place,
            coalesce(w.is_counted AND (w.end_ns IS NULL OR c.launch_ns < w.end_ns), FALSE)
                AS is_counted
        FROM calls AS c
        ASOF LEFT JOIN windows AS w
            ON w.trace = c.trace AND w.rank = c.rank AND w.start_ns <= c.launch_ns
    ),

    numbered AS (
        SELECT
            trace, rank, device_key, place, is_counted, kind, ts_ns, launch_ns,
            row_number() OVER (
                PARTITION BY trace, rank, device_key, place ORDER BY launch_ns, ts_ns, event_id
            ) AS call,
            lag(launch_ns) OVER (
                PARTITION BY trace, rank, device_key ORDER BY launch_ns, ts_ns, event_id
            ) AS before_ns
        FROM placed
    ),

    alike AS (
        SELECT trace, place, count(DISTINCT kinds) = 1 AS is_alike
        FROM (
            SELECT trace, rank, device_key, place, bit_xor(hash(call, kind)) AS kinds
            FROM numbered
            GROUP BY trace, rank, device_key, place
        )
        GROUP BY trace, place
    )

SELECT
    n.trace, n.rank, n.device_key, n.place, CASE WHEN a.is_alike THEN n.call ELSE 0 END AS call,
    n.is_counted, n.ts_ns, n.launch_ns, n.before_ns
FROM numbered AS n
INNER JOIN alike AS a ON a.trace = n.trace AND a.place = n.place
