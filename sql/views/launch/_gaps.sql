-- @view     _gaps
-- @summary  Idle times between two busy spans of a device: what lies before its first and after its
--           last event is no gap.
-- @partition rank
-- @requires busy_intervals
WITH
    merged AS (
        SELECT
            trace, rank, device,
            unnest(interval_union(array_agg({start_ns: start_ns, end_ns: end_ns}))) AS span
        FROM busy_intervals
        GROUP BY trace, rank, device
    ),

    ordered AS (
        SELECT
            trace, rank, device, span.end_ns AS start_ns,
            lead(span.start_ns) OVER (
                PARTITION BY trace, rank, device ORDER BY span.start_ns
            ) AS end_ns
        FROM merged
    )

SELECT trace, rank, device, start_ns, end_ns, end_ns - start_ns AS gap_ns
FROM ordered
WHERE end_ns IS NOT NULL
