-- @derived  layer_times
-- @partition rank
-- @summary  Layers that annotations name: host time of their ranges, and device time of what was
--           launched inside them, by step and phase.
-- @requires _annotations
-- @reads    _phased phases steps
-- @caveat   Only ranges that say a layer in their names count (layers.3, blocks.3, h.3): the
--           operators of a model say none.
-- @source   metrics 2.H layer_breakdown_ms
WITH
    -- The outermost range of each layer.
    ranges AS (
        SELECT r.source, r.rank, r.event_id, r.ts_ns, r.end_ns, r.layer
        FROM _annotations AS r
        LEFT JOIN _annotations AS p ON p.event_id = r.parent_event_id
        WHERE r.layer IS NOT NULL
            AND r.layer IS DISTINCT FROM p.layer_around
    ),

    stepped AS (
        SELECT
            r.source, r.rank, r.event_id, r.ts_ns, r.end_ns, r.layer,
            CASE WHEN r.ts_ns < s.ts_ns + s.dur_ns THEN s.step END AS step
        FROM ranges AS r
        ASOF LEFT JOIN steps AS s
            ON s.source = r.source AND s.rank = r.rank AND s.ts_ns <= r.ts_ns
    ),

    -- A range begins before the first operator in it: it is of the phase that it shares most with.
    phased AS (
        SELECT
            r.source, r.rank, r.step, r.layer, r.ts_ns, r.end_ns,
            coalesce(p.phase, 'rest') AS phase
        FROM stepped AS r
        LEFT JOIN phases AS p
            ON p.source = r.source AND p.rank = r.rank AND p.step IS NOT DISTINCT FROM r.step
            AND p.ts_ns < r.end_ns AND p.ts_ns + p.dur_ns > r.ts_ns
        QUALIFY row_number() OVER (
            PARTITION BY r.event_id
            ORDER BY least(p.ts_ns + p.dur_ns, r.end_ns) - greatest(p.ts_ns, r.ts_ns) DESC NULLS LAST, p.ts_ns
        ) = 1
    ),

    host AS (
        SELECT
            source, rank, step, layer, phase, count(*) AS ranges,
            interval_union_ns(array_agg({start_ns: ts_ns, end_ns: end_ns})) AS host_ns
        FROM phased
        GROUP BY source, rank, step, layer, phase
    ),

    device AS (
        SELECT
            e.source, e.rank, e.step, r.layer_around AS layer, e.phase,
            interval_union_ns(array_agg({start_ns: e.start_ns, end_ns: e.end_ns})) AS device_ns,
            count(*) AS events
        FROM _phased AS e
        INNER JOIN _annotations AS r ON r.event_id = e.range_event_id
        WHERE r.layer_around IS NOT NULL
        GROUP BY e.source, e.rank, e.step, r.layer_around, e.phase
    )

SELECT
    coalesce(h.source, d.source) AS source,
    coalesce(h.rank, d.rank) AS rank,
    coalesce(h.step, d.step) AS step,
    coalesce(h.layer, d.layer) AS layer,
    coalesce(h.phase, d.phase) AS phase,
    h.ranges, h.host_ns, d.device_ns, d.events
FROM host AS h
FULL OUTER JOIN device AS d
    ON d.source = h.source AND d.rank = h.rank AND d.step IS NOT DISTINCT FROM h.step
    AND d.layer = h.layer AND d.phase = h.phase
ORDER BY source, rank, step, layer, phase
