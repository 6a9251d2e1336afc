-- @view     _step_busy
-- @summary  How long the devices of each rank are busy in its steps, added up over the devices, and
--           how long the steps are together.
-- @materialize session
-- @partition rank
-- @requires busy_intervals steps
WITH
    step_spans AS (
        SELECT
            trace, rank,
            interval_union(array_agg({start_ns: ts_ns, end_ns: ts_ns + dur_ns})) AS spans
        FROM steps
        WHERE dur_ns > 0
        GROUP BY trace, rank
    ),

    device_spans AS (
        SELECT
            trace, rank, device,
            interval_union(array_agg({start_ns: start_ns, end_ns: end_ns})) AS spans
        FROM busy_intervals
        GROUP BY trace, rank, device
    )

SELECT
    s.trace, s.rank,
    sum(interval_overlap_ns(d.spans, s.spans)) AS busy_ns,
    max(interval_union_ns(s.spans)) AS step_ns
FROM step_spans AS s
INNER JOIN device_spans AS d ON d.trace = s.trace AND d.rank = s.rank
GROUP BY s.trace, s.rank
