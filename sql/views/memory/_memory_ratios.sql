-- @view     _memory_ratios
-- @summary  Efficiency and fragmentation of each rank when its last memory snapshot was taken, over
--           all its devices.
-- @materialize session
-- @requires _memory_state
WITH
    totals AS (
        SELECT
            trace, rank, sum(reserved_bytes) AS reserved_bytes,
            sum(allocated_bytes) AS allocated_bytes, sum(active_bytes) AS active_bytes,
            CASE WHEN count(requested_bytes) = count(*) THEN sum(requested_bytes) END
                AS requested_bytes,
            sum(inactive_bytes) AS inactive_bytes,
            max(largest_inactive_bytes) AS largest_inactive_bytes
        FROM _memory_state
        GROUP BY trace, rank
    )

SELECT
    trace,
    rank,
    active_bytes / nullif(allocated_bytes, 0) AS active_over_allocated,
    requested_bytes / nullif(reserved_bytes, 0) AS requested_over_reserved,
    (reserved_bytes - allocated_bytes) / nullif(reserved_bytes, 0) AS external_ratio,
    -- What waits for a stream was requested, too.
    (active_bytes - requested_bytes) / nullif(active_bytes, 0) AS internal_ratio,
    1 - largest_inactive_bytes / nullif(inactive_bytes, 0) AS scattered_ratio
FROM totals
