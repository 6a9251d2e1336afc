-- @diagnosis low_bandwidth
-- @version  1
-- @summary  Large calls use far less of the link than it gives by the workload card.
-- @profilers kineto nsys xla
-- @requires _exposed_transfers cards
-- @reads    _wording _diagnosis_limits _match_doubts bus_factors hockney_fits _size_reasons
-- @gain     exposed transfer of these calls, above what they would need at the stated share
--           (reachable_ratio) of the link; mean over the ranks that have such calls
-- @shown    busbw_utilization_ratio
-- @param    reachable_ratio DOUBLE 0.6 | Share of the bandwidth of the link, as bus bandwidth, that
--           large calls are held to reach.
-- @param    large_bytes BIGINT 4194304 | Calls of this size or more are large, where their fit does
--           not say it (five times n_half).
-- @reason   (SELECT why FROM _size_reasons WHERE spoken = 'call')
--           | no call of more than one rank states a size above 0 and has a duration above 0
-- @check    (SELECT count(*) FROM cards WHERE scale_up_gbit_per_s > 0 OR scale_out_gbit_per_s > 0)
--           > 0
--           | the workload card states no link bandwidth
-- @check    (SELECT count(*) FROM _exposed_transfers WHERE link_bw_gb_per_s IS NOT NULL) > 0
--           | nothing says over which link the calls run
-- @caveat   A card that states both directions of a link together halves the share. An all-reduce
--           done in the switches (NVLS, SHARP) can pass the link. Groups of one size and link are
--           one finding, which has the name of a group where all have that one.
-- @source   nccl-tests doc/PERFORMANCE.md (bus bandwidth), as in busbw_utilization_ratio
WITH
    calls AS (
        SELECT
            x.trace, x.rank, x.collective, x.pg_desc, x.dim, x.group_size, x.link,
            x.link_bw_gb_per_s, x.message_bytes, x.calls, x.transfer_ms, x.exposed_ms,
            CASE
                WHEN NOT b.in_group THEN b.factor
                WHEN x.group_size > 1 THEN b.factor * (x.group_size - 1) / x.group_size
            END * x.message_bytes * x.calls AS bus_bytes,
            coalesce(
                CASE WHEN f.flag IS NULL THEN 5 * f.n_half_bytes END, CAST($large_bytes AS DOUBLE)
            ) AS large_bytes
        FROM _exposed_transfers AS x
        INNER JOIN bus_factors AS b ON b.collective = x.collective
        LEFT JOIN hockney_fits AS f
            ON f.trace = x.trace
            AND f.collective = x.collective
            AND f.group_size IS NOT DISTINCT FROM x.group_size
            AND f.link IS NOT DISTINCT FROM x.link
        WHERE x.is_matched AND NOT x.uneven AND x.link_bw_gb_per_s > 0 AND x.transfer_ms > 0
    ),

    per_rank AS (
        SELECT
            trace, rank, collective, group_size, link, link_bw_gb_per_s,
            min(coalesce(pg_desc, dim, '')) AS group_name,
            max(coalesce(pg_desc, dim, '')) AS other_name,
            sum(calls ORDER BY message_bytes) AS calls,
            sum(message_bytes * calls ORDER BY message_bytes) / sum(calls ORDER BY message_bytes)
                AS mean_bytes,
            sum(bus_bytes ORDER BY message_bytes) AS bus_bytes,
            sum(transfer_ms ORDER BY message_bytes) AS transfer_ms,
            sum(exposed_ms ORDER BY message_bytes) AS exposed_ms
        FROM calls
        WHERE message_bytes >= large_bytes AND bus_bytes > 0
        GROUP BY trace, rank, collective, group_size, link, link_bw_gb_per_s
    ),

    -- Bytes per ns are GB/s.
    rated AS (
        SELECT
            trace, rank, collective, group_size, link, link_bw_gb_per_s, group_name, other_name,
            calls, mean_bytes, transfer_ms, exposed_ms,
            bus_bytes / (transfer_ms * 1e6) AS bus_bw_gb_per_s,
            bus_bytes / ($reachable_ratio * link_bw_gb_per_s) / 1e6 AS needed_ms
        FROM per_rank
    ),

    found AS (
        SELECT
            trace, collective, group_size, link, link_bw_gb_per_s,
            CASE WHEN min(group_name) = max(other_name) THEN nullif(min(group_name), '') END
                AS group_name,
            avg(calls ORDER BY rank) AS calls,
            sum(mean_bytes * calls ORDER BY rank) / sum(calls ORDER BY rank) AS mean_bytes,
            avg(bus_bw_gb_per_s ORDER BY rank) AS bus_bw_gb_per_s,
            avg(exposed_ms ORDER BY rank) AS exposed_ms,
            avg(least(exposed_ms, greatest(transfer_ms - needed_ms, 0)) ORDER BY rank) AS gain_ms
        FROM rated
        GROUP BY trace, collective, group_size, link, link_bw_gb_per_s
    )

SELECT
    f.trace,
    printf(
        'large calls of %s%s in groups of %s reach %.1f GB/s on the bus, %.0f %% of the %.1f GB/s of the %s link; %.0f calls of %.1f MB %s, %.3f ms exposed',
        f.collective, coalesce(' of ' || f.group_name, ''),
        coalesce(CAST(f.group_size AS VARCHAR), 'unknown size'), f.bus_bw_gb_per_s,
        100 * f.bus_bw_gb_per_s / f.link_bw_gb_per_s, f.link_bw_gb_per_s, f.link, f.calls,
        f.mean_bytes / 1e6, w.in_what, f.exposed_ms
    ) AS finding,
    {
        "group": f.group_name, kind: f.collective, size_bytes: CAST(round(f.mean_bytes) AS BIGINT)
    } AS "where",
    f.exposed_ms AS time_per_step_ms,
    f.gain_ms,
    [l.steps_limit, l.matches_limit, doubts.doubts_limit] AS limits,
    CASE f.link
        WHEN 'inter'
            THEN 'look at the network: NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=NET,GRAPH (NET/IB or NET/Socket, GPU Direct RDMA, all cards in use), NCCL_IB_HCA, NCCL_SOCKET_IFNAME, NCCL_NET_GDR_LEVEL, ibstat; and nccl-tests on the same nodes'
        ELSE 'look at the path between the devices: nvidia-smi topo -m (NVLink or PCIe), nvidia-smi nvlink -s, NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=GRAPH (channels, P2P or SHM), no NCCL_P2P_DISABLE; and nccl-tests in the same container'
    END AS advice,
    'SELECT trace, collective, group_size, link, message_bytes, transfer_ns / 1e6 AS transfer_ms, bus_bw_gb_per_s, link_bw_gb_per_s FROM _bus_calls WHERE trace = {trace} ORDER BY message_bytes DESC, transfer_ns DESC LIMIT 50'
        AS evidence
FROM found AS f
INNER JOIN _wording AS w ON w.trace = f.trace
INNER JOIN _diagnosis_limits AS l ON l.trace = f.trace
LEFT JOIN _match_doubts AS doubts ON doubts.trace = f.trace
WHERE f.gain_ms > 0
QUALIFY row_number() OVER (
    PARTITION BY f.trace ORDER BY f.gain_ms DESC, f.collective, f.group_size, f.link
) <= 3
