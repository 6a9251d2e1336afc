-- @derived  fsdp_ranges
-- @partition rank
-- @summary  Operations of FSDP by step and layer of each rank: their own time on the host, and the
--           time of what they launched.
-- @requires _fsdp_ranges
-- @reads    _fsdp_events
-- @source   metrics 2.H fsdp
WITH
    host AS (
        SELECT
            source, rank, step, operation, layer,
            count(*) AS ranges, TRY_CAST(sum(own_ns) AS BIGINT) AS host_ns
        FROM _fsdp_ranges
        GROUP BY source, rank, step, operation, layer
    ),

    device AS (
        SELECT
            source, rank, step, operation, layer,
            interval_union_ns(array_agg({start_ns: start_ns, end_ns: end_ns})) AS device_ns,
            interval_union_ns(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'comm')) AS comm_ns,
            interval_union_ns(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class <> 'comm')) AS copy_ns,
            count(*) AS events
        FROM _fsdp_events
        GROUP BY source, rank, step, operation, layer
    )

SELECT
    coalesce(h.source, d.source) AS source,
    coalesce(h.rank, d.rank) AS rank,
    coalesce(h.step, d.step) AS step,
    coalesce(h.operation, d.operation) AS operation,
    coalesce(h.layer, d.layer) AS layer,
    h.ranges, h.host_ns, d.device_ns, d.comm_ns, d.copy_ns, d.events
FROM host AS h
FULL OUTER JOIN device AS d
    ON d.source = h.source AND d.rank = h.rank AND d.step IS NOT DISTINCT FROM h.step
    AND d.operation = h.operation AND d.layer IS NOT DISTINCT FROM h.layer
ORDER BY source, rank, step, operation, layer
