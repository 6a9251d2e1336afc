-- @view     _account_parts
-- @summary  What a device is busy with, as disjoint spans of each part: compute, comm (of which
--           transfer and wait are known), copy and graph, each hidden by something else or not.
-- @partition rank
-- @requires busy_intervals
-- @reads    _account_calls
-- @caveat   Compute hides communication, kernels hide copies, and anything hides a graph. Spans
--           that are not hidden are disjoint over the parts, but for comm, which holds transfer and
--           wait.
WITH
    calls AS (
        SELECT
            trace, rank, device_key,
            array_agg({start_ns: start_ns, end_ns: end_ns}) AS matched,
            array_agg({start_ns: transfer_ns, end_ns: end_ns}) AS transfers
        FROM _account_calls
        GROUP BY trace, rank, device_key
    ),

    classes AS (
        SELECT
            trace, rank, coalesce(device, -1) AS device_key,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'comm') AS comm,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'compute'), [])
                AS comp,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class IN ('copy', 'set'))
                AS copies,
            coalesce(
                array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class IN ('comm', 'compute')), []
            ) AS kernels,
            array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'graph') AS graphs,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class <> 'graph'), [])
                AS plain
        FROM busy_intervals
        GROUP BY trace, rank, device_key
    ),

    lists AS (
        SELECT
            l.trace, l.rank, l.device_key, l.comm, l.comp, l.copies, l.kernels, l.graphs, l.plain,
            interval_intersect(c.transfers, l.comm) AS transfer,
            interval_intersect(interval_subtract(c.matched, c.transfers), l.comm) AS wait
        FROM classes AS l
        LEFT JOIN calls AS c
            ON c.trace = l.trace AND c.rank = l.rank AND c.device_key = l.device_key
    ),

    pieces AS (
        SELECT
            trace, rank, device_key,
            unnest([
                {part: 'compute', hidden: FALSE, spans: interval_union(comp)},
                {part: 'comm', hidden: FALSE, spans: interval_subtract(comm, comp)},
                {part: 'comm', hidden: TRUE, spans: interval_intersect(comm, comp)},
                {part: 'transfer', hidden: FALSE, spans: interval_subtract(transfer, comp)},
                {part: 'transfer', hidden: TRUE, spans: interval_intersect(transfer, comp)},
                {part: 'wait', hidden: FALSE, spans: interval_subtract(wait, comp)},
                {part: 'wait', hidden: TRUE, spans: interval_intersect(wait, comp)},
                {part: 'copy', hidden: FALSE, spans: interval_subtract(copies, kernels)},
                {part: 'copy', hidden: TRUE, spans: interval_intersect(copies, kernels)},
                {part: 'graph', hidden: FALSE, spans: interval_subtract(graphs, plain)},
                {part: 'graph', hidden: TRUE, spans: interval_intersect(graphs, plain)}
            ]) AS kind
        FROM lists
    ),

    flat AS (
        SELECT
            trace, rank, device_key, kind.part AS part, kind.hidden AS hidden,
            unnest(kind.spans) AS span
        FROM pieces
    )

SELECT
    trace, rank, device_key, part, hidden, span.start_ns AS start_ns, span.end_ns AS end_ns
FROM flat
