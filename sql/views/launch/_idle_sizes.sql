-- @view     _idle_sizes
-- @summary  How many idle gaps of each length the devices of a rank have, by what is known of the
--           launch of what ends them.
-- @materialize session
-- @partition rank
-- @requires _gap_causes
-- @caveat   launched is in_gap where the call returned after the gap began, before where it had
--           returned by then, unknown where the launch is.
WITH
    gaps AS (
        SELECT
            trace, rank, gap_ns, host_wait_ns,
            CASE
                WHEN host_wait_ns IS NULL THEN 'unknown'
                WHEN host_wait_ns > 0 THEN 'in_gap'
                ELSE 'before'
            END AS launched
        FROM _gap_causes
        WHERE NOT is_first
    )

SELECT
    trace, rank, launched, gap_ns,
    count(*) AS gaps,
    sum(gap_ns) AS idle_ns,
    coalesce(sum(host_wait_ns), 0) AS host_wait_ns
FROM gaps
GROUP BY trace, rank, launched, gap_ns
ORDER BY trace, rank, launched, gap_ns
