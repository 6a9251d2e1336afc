-- @view     _exposed_parts
-- @summary  Communication of each rank by process group, by parallel dimension and in all: how
--           long, and how much of it no compute hides.
-- @materialize session
-- @partition rank
-- @requires device_events
-- @reads    _busy _traffic_dims collectives collective_calls
-- @caveat   level is group (part is its pg_id, 0 for none stated), dim or all, with times of the
--           devices of the rank added up; or share, whose rows say the dimension of each group and
--           how long its events last, and nothing else. transfer_ms and wait_ms are of the calls
--           that are matched over the ranks. alone_ms: no other part of the level communicates.
WITH
    shares AS (
        SELECT
            d.trace, d.rank, d.device, c.pg_id,
            coalesce(CASE WHEN t.mode NOT IN ('stride', 'kernel_name') THEN t.dim END, 'unknown') AS dim,
            d.dur_ns,
            d.ts_ns AS start_ns,
            d.ts_ns + d.dur_ns + coalesce(d.ts_ps + d.dur_ps, 0) // 1000 AS end_ns,
            greatest(
                d.ts_ns,
                d.ts_ns + d.dur_ns + coalesce(d.ts_ps + d.dur_ps, 0) // 1000 - m.transfer_ns
            ) AS transfer_start_ns,
            m.transfer_ns IS NOT NULL AS is_matched
        FROM device_events AS d
        LEFT JOIN collectives AS c ON c.trace = d.trace AND c.event_id = d.event_id
        LEFT JOIN collective_calls AS m
            ON m.trace = c.trace AND m.collective_id = c.collective_id
        LEFT JOIN _traffic_dims AS t ON t.trace = d.trace AND t.event_id = d.event_id
        WHERE d.class = 'comm' AND d.dur_ns IS NOT NULL AND d.rank IS NOT NULL AND d.device IS NOT NULL
    ),

    -- A row is a call as a part of its group, one as a part of its dimension, and one as a part of
    -- all; 0 stands for no stated group.
    parts AS (
        SELECT
            trace, rank, device, 'group' AS level, CAST(coalesce(pg_id, 0) AS VARCHAR) AS part,
            start_ns, end_ns, transfer_start_ns, is_matched
        FROM shares
        UNION ALL
        SELECT trace, rank, device, 'dim', dim, start_ns, end_ns, transfer_start_ns, is_matched
        FROM shares
        UNION ALL
        SELECT trace, rank, device, 'all', 'all', start_ns, end_ns, transfer_start_ns, is_matched
        FROM shares
    ),

    merged AS (
        SELECT
            trace, rank, device, level, part,
            count(*) AS calls,
            count(*) FILTER (WHERE is_matched) AS matched_calls,
            interval_union(array_agg({start_ns: start_ns, end_ns: end_ns})) AS spans,
            interval_union(
                coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE is_matched), [])
            ) AS matched,
            interval_union(
                coalesce(
                    array_agg({start_ns: transfer_start_ns, end_ns: end_ns}) FILTER (WHERE is_matched), []
                )
            ) AS transfers
        FROM parts
        GROUP BY trace, rank, device, level, part
    ),

    numbered AS (
        SELECT
            trace, rank, device, level, part, calls, matched_calls, spans, matched, transfers,
            row_number() OVER (PARTITION BY trace, rank, device, level ORDER BY part) AS place
        FROM merged
    ),

    -- How many parts communicate from one edge to the next, and which one where it is one: of the
    -- places that have begun and not ended the sum.
    edges AS (
        SELECT trace, rank, device, level, place, unnest(spans).start_ns AS at_ns, 1 AS change
        FROM numbered
        WHERE level <> 'all'
        UNION ALL
        SELECT trace, rank, device, level, place, unnest(spans).end_ns, -1
        FROM numbered
        WHERE level <> 'all'
    ),

    levels AS (
        SELECT
            trace, rank, device, level, at_ns,
            sum(sum(change)) OVER edge AS open_parts,
            sum(sum(change * place)) OVER edge AS open_place,
            lead(at_ns) OVER edge AS next_ns
        FROM edges
        GROUP BY trace, rank, device, level, at_ns
        WINDOW edge AS (PARTITION BY trace, rank, device, level ORDER BY at_ns)
    ),

    alone AS (
        SELECT
            trace, rank, device, level, open_place AS place,
            array_agg({start_ns: at_ns, end_ns: next_ns}) AS spans
        FROM levels
        WHERE open_parts = 1
        GROUP BY trace, rank, device, level, open_place
    ),

    device_parts AS (
        SELECT
            n.trace, n.rank, n.level, n.part, n.calls, n.matched_calls,
            interval_union_ns(n.spans) AS comm_ns,
            interval_subtract_ns(n.spans, coalesce(b.compute, [])) AS exposed_ns,
            interval_subtract_ns(n.transfers, coalesce(b.compute, [])) AS transfer_ns,
            interval_subtract_ns(interval_subtract(n.matched, n.transfers), coalesce(b.compute, []))
                AS wait_ns,
            interval_subtract_ns(coalesce(a.spans, []), coalesce(b.compute, [])) AS alone_ns
        FROM numbered AS n
        INNER JOIN _busy AS b
            ON b.trace = n.trace
            AND b.rank = n.rank
            AND b.device = n.device
        LEFT JOIN alone AS a
            ON a.trace = n.trace
            AND a.rank = n.rank
            AND a.device = n.device
            AND a.level = n.level
            AND a.place = n.place
    )

SELECT
    trace, rank, level, part, CAST(NULL AS VARCHAR) AS dim, CAST(NULL AS HUGEINT) AS dur_ns,
    sum(calls) AS calls,
    sum(matched_calls) AS matched_calls,
    sum(comm_ns) / 1e6 AS comm_ms,
    sum(exposed_ns) / 1e6 AS exposed_ms,
    sum(transfer_ns) / 1e6 AS transfer_ms,
    sum(wait_ns) / 1e6 AS wait_ms,
    sum(alone_ns) / 1e6 AS alone_ms
FROM device_parts
GROUP BY trace, rank, level, part
UNION ALL
SELECT
    trace, rank, 'share', CAST(coalesce(pg_id, 0) AS VARCHAR), dim, sum(dur_ns), NULL, NULL, NULL, NULL,
    NULL, NULL, NULL
FROM shares
GROUP BY trace, rank, pg_id, dim
