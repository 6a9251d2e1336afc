-- @derived  fsdp_steps
-- @partition rank
-- @summary  The work of FSDP on the devices of a rank in each step, and how much of it other
--           compute hides.
-- @requires _fsdp_events
-- @reads    device_events
-- @source   metrics 2.H fsdp_overhead_pct and fsdp_prefetch_efficiency
WITH
    work AS (
        SELECT
            source, rank, step, device,
            min(start_ns) AS first_ns,
            max(end_ns) AS last_ns,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'comm'), []) AS comm,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class <> 'comm'), []) AS copy,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (
                WHERE collective = 'all_gather'
            ), []) AS gather,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (
                WHERE collective IN ('reduce_scatter', 'all_reduce')
            ), []) AS reduce
        FROM _fsdp_events
        GROUP BY source, rank, step, device
    ),

    -- Compute that is not of FSDP, near enough to hide something.
    others AS (
        SELECT
            w.source, w.rank, w.step, w.device,
            array_agg({start_ns: d.ts_ns, end_ns: d.ts_ns + d.dur_ns}) AS spans
        FROM work AS w
        INNER JOIN device_events AS d
            ON d.source = w.source AND d.rank = w.rank
            AND d.device IS NOT DISTINCT FROM w.device
            AND d.ts_ns < w.last_ns AND d.ts_ns + d.dur_ns > w.first_ns
        WHERE d.class = 'compute'
            AND NOT EXISTS (SELECT 1 FROM _fsdp_events AS f WHERE f.event_id = d.event_id)
        GROUP BY w.source, w.rank, w.step, w.device
    ),

    hidden AS (
        SELECT w.source, w.rank, w.step, w.comm, w.copy, w.gather, w.reduce, coalesce(o.spans, []) AS others
        FROM work AS w
        LEFT JOIN others AS o
            ON o.source = w.source AND o.rank = w.rank AND o.step IS NOT DISTINCT FROM w.step
            AND o.device IS NOT DISTINCT FROM w.device
    )

SELECT
    source, rank, step,
    TRY_CAST(sum(interval_union_ns(comm)) AS BIGINT) AS comm_ns,
    TRY_CAST(sum(interval_union_ns(copy)) AS BIGINT) AS copy_ns,
    TRY_CAST(sum(interval_union_ns(gather)) AS BIGINT) AS gather_ns,
    TRY_CAST(sum(interval_overlap_ns(gather, others)) AS BIGINT) AS hidden_gather_ns,
    TRY_CAST(sum(interval_union_ns(reduce)) AS BIGINT) AS reduce_ns,
    TRY_CAST(sum(interval_overlap_ns(reduce, others)) AS BIGINT) AS hidden_reduce_ns,
    TRY_CAST(sum(interval_subtract_ns(comm, others)) AS BIGINT) AS exposed_comm_ns,
    TRY_CAST(sum(interval_subtract_ns(list_concat(comm, copy), others)) AS BIGINT) AS overhead_ns
FROM hidden
GROUP BY source, rank, step
ORDER BY source, rank, step
