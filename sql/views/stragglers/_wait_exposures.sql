-- @view     _wait_exposures
-- @summary  How long each rank waits in matched calls, and how much of that no compute hides:
--           unions per device, summed over the devices of a rank.
-- @materialize session
-- @partition rank
-- @requires _waits _busy
-- @caveat   Two rows for each rank that waits, aligned false and true (see _clock_shifts).
WITH
    waits AS (
        SELECT
            trace, rank, device, aligned, array_agg({start_ns: ts_ns, end_ns: ts_ns + wait_ns}) AS spans
        FROM _waits
        GROUP BY trace, rank, device, aligned
    )

SELECT
    w.trace, w.rank, w.aligned,
    TRY_CAST(sum(interval_union_ns(w.spans)) AS BIGINT) AS wait_ns,
    TRY_CAST(sum(interval_subtract_ns(w.spans, coalesce(b.compute, []))) AS BIGINT) AS exposed_ns
FROM waits AS w
LEFT JOIN _busy AS b
    ON b.trace = w.trace AND b.rank = w.rank AND b.device IS NOT DISTINCT FROM w.device
GROUP BY w.trace, w.rank, w.aligned
