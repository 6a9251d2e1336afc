-- @view     _account_spans
-- @summary  What each device does at each moment: disjoint spans of the parts of step_account, but
--           for what is other.
-- @requires busy_intervals
-- @reads    _account_parts _idle_parts
-- @caveat   Spans are not cut at steps. is_idle says whether the part is one of idle time.
WITH
    -- Communication that is neither transfer nor wait is of no matched call.
    comm AS (
        SELECT
            trace, rank, device_key,
            array_agg({start_ns: start_ns, end_ns: end_ns}) AS all_spans,
            coalesce(
                array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE part <> 'comm'), []
            ) AS known_spans
        FROM _account_parts
        WHERE NOT hidden AND part IN ('comm', 'transfer', 'wait')
        GROUP BY trace, rank, device_key
    ),

    unmatched AS (
        SELECT trace, rank, device_key, unnest(interval_subtract(all_spans, known_spans)) AS span
        FROM comm
    )

SELECT
    trace, rank, nullif(device_key, -1) AS device, FALSE AS is_idle, part, start_ns, end_ns
FROM _account_parts
WHERE NOT hidden AND part <> 'comm'
UNION ALL
SELECT
    trace, rank, nullif(device_key, -1), FALSE, 'unmatched', span.start_ns, span.end_ns
FROM unmatched
UNION ALL
SELECT trace, rank, device, TRUE, part, start_ns, end_ns
FROM _idle_parts
