-- @metric   p2p_link_utilization_pct
-- @version  1
-- @area     bandwidth
-- @summary  Sampled utilization of the sending side of the link (NVLink, else PCIe) while a rank
--           sends or receives point to point.
-- @grain    trace
-- @profilers nsys
-- @requires counters collectives
-- @value    p2p_link_utilization_pct
-- @alias    bandwidth_utilization_peertopeer_group_6 bandwidth_utilization_peertopeer
-- @check    (SELECT count(*) FROM counters WHERE unit = 'Throughput %' AND (lower(name) LIKE
--           'nvlink tx%' OR lower(name) LIKE 'pcie tx%')) > 0
--           | no utilization of NVLink or PCIe was sampled (nsys --gpu-metrics-device)
-- @check    (SELECT count(*) FROM collectives WHERE collective IN ('send', 'recv', 'send_recv')) >
--           0
--           | the trace has no send and no receive
-- @null     no sample lies inside a send or receive
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   p2p_link_utilization_pct DOUBLE value pct higher | Mean over the samples inside the
--           union of a device's send and receive events, mean over devices. User data of NVLink as
--           sampled, requests and responses together; PCIe where no NVLink was sampled.
-- @column   nonzero_pct DOUBLE value pct | The same over the samples that are not 0.
-- @column   max_pct DOUBLE value pct | Largest sample.
-- @column   sample_count BIGINT value count | Samples inside the events.
-- @column   nonzero_sample_count BIGINT value count | Those that are not 0.
-- @column   link VARCHAR value - | nvlink or pcie.
-- @column   by_counter LIST value - | Of each counter of a sending side, inside the events: name,
--           mean_pct, nonzero_pct, max_pct, samples.
-- @column   per_rank LIST value - | Of each rank and device: mean_pct, nonzero_pct, samples.
-- @caveat   A sample is the mean over its period: events that are shorter than the period of
--           sampling are hardly seen.
-- @caveat   Whether user data travels in requests or in responses depends on who copies, so both
--           count; the tool that set the older name reads responses alone, and the mean of the
--           samples that are not 0.
-- @source   metrics 2.D p2p_link_utilization_pct (defect D37)
WITH
    samples AS (
        SELECT
            trace, rank, device, ts_ns, name, value,
            CASE WHEN lower(name) LIKE 'nvlink tx%' THEN 'nvlink' ELSE 'pcie' END AS link,
            lower(name) LIKE 'nvlink tx%' AND lower(name) NOT LIKE '%protocol%' OR lower(name) LIKE 'pcie tx%'
                AS carries_data
        FROM counters
        WHERE unit = 'Throughput %' AND value IS NOT NULL
            AND rank IS NOT NULL AND device IS NOT NULL
            AND (lower(name) LIKE 'nvlink tx%' OR lower(name) LIKE 'pcie tx%')
    ),

    merged AS (
        SELECT
            trace, rank, device,
            unnest(interval_union(array_agg({start_ns: ts_ns, end_ns: ts_ns + dur_ns}))) AS span
        FROM collectives
        WHERE collective IN ('send', 'recv', 'send_recv')
            AND device IS NOT NULL AND dur_ns IS NOT NULL
        GROUP BY trace, rank, device
    ),

    spans AS (
        SELECT trace, rank, device, span.start_ns AS start_ns, span.end_ns AS end_ns
        FROM merged
    ),

    inside AS (
        SELECT s.trace, s.rank, s.device, s.ts_ns, s.name, s.value, s.link, s.carries_data
        FROM samples AS s
        ASOF INNER JOIN spans AS p
            ON p.trace = s.trace AND p.rank = s.rank AND p.device = s.device AND p.start_ns <= s.ts_ns
        WHERE s.ts_ns < p.end_ns
    ),

    -- The link of a trace: NVLink where it was sampled at all.
    links AS (
        SELECT trace, min(link) AS link
        FROM samples
        WHERE carries_data
        GROUP BY trace
    ),

    moments AS (
        SELECT i.trace, i.rank, i.device, i.ts_ns, sum(i.value ORDER BY i.name) AS value
        FROM inside AS i
        INNER JOIN links AS l ON l.trace = i.trace AND l.link = i.link
        WHERE i.carries_data
        GROUP BY i.trace, i.rank, i.device, i.ts_ns
    ),

    devices AS (
        SELECT
            trace, rank, device, avg(value ORDER BY ts_ns) AS mean_pct,
            avg(value ORDER BY ts_ns) FILTER (WHERE value > 0) AS nonzero_pct,
            max(value) AS max_pct, count(*) AS samples, count(*) FILTER (WHERE value > 0) AS nonzero_samples
        FROM moments
        GROUP BY trace, rank, device
    ),

    device_totals AS (
        SELECT
            trace,
            avg(mean_pct ORDER BY rank, device) AS p2p_link_utilization_pct,
            avg(nonzero_pct ORDER BY rank, device) AS nonzero_pct,
            max(max_pct) AS max_pct,
            TRY_CAST(sum(samples) AS BIGINT) AS sample_count,
            TRY_CAST(sum(nonzero_samples) AS BIGINT) AS nonzero_sample_count,
            array_agg(
                {rank: rank, device: device, mean_pct: mean_pct, nonzero_pct: nonzero_pct, samples: samples}
                ORDER BY rank, device
            ) AS per_rank
        FROM devices
        GROUP BY trace
    ),

    counter_means AS (
        SELECT
            trace, name, avg(value ORDER BY rank, device, ts_ns) AS mean_pct,
            avg(value ORDER BY rank, device, ts_ns) FILTER (WHERE value > 0) AS nonzero_pct,
            max(value) AS max_pct, count(*) AS samples
        FROM inside
        GROUP BY trace, name
    ),

    counter_lists AS (
        SELECT
            trace,
            array_agg(
                {name: name, mean_pct: mean_pct, nonzero_pct: nonzero_pct, max_pct: max_pct, samples: samples}
                ORDER BY name
            ) AS by_counter
        FROM counter_means
        GROUP BY trace
    )

SELECT
    d.trace, d.p2p_link_utilization_pct, d.nonzero_pct, d.max_pct, d.sample_count, d.nonzero_sample_count,
    l.link, c.by_counter, d.per_rank
FROM device_totals AS d
INNER JOIN counter_lists AS c ON c.trace = d.trace
INNER JOIN links AS l ON l.trace = d.trace
ORDER BY d.trace
