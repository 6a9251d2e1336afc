-- @view     step_short_events
-- @summary  When the events of the drawn step ran that are too many to be in step_timeline, by
--           lane: how much of each slice of the step they fill.
-- @requires device_events _drawn_events
-- @null     step_timeline has every event of the step
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   device BIGINT dim - | Accelerator.
-- @column   lane VARCHAR dim - | compute, comm or copy.
-- @column   event_count BIGINT value count | Events that are not in step_timeline.
-- @column   busy_us DOUBLE value us | Union of them, less what spans of step_timeline in the same
--           lane cover.
-- @column   start_us DOUBLE value us | Start of the first slice, on the time axis of step_timeline.
-- @column   slice_us DOUBLE value us | Length of a slice: the same in all lanes.
-- @column   filled_pct LIST value - | Of each slice, how many percent that time fills; whole
--           percent, rounded down, but at least 1 where there is any.
-- @source   the event tables; the clocks of ranks are aligned where one is further off than its
--           uncertainty and what is compared (clock_offsets.taken_away)
WITH
    lanes AS (
        SELECT
            trace, rank, coalesce(device, -1) AS device_key, lane, any_value(device) AS device,
            any_value(window_ns) AS window_ns,
            count(*) FILTER (WHERE NOT is_span) AS event_count,
            array_agg({start_ns: ts_ns, end_ns: ts_ns + dur_ns}) FILTER (WHERE NOT is_span) AS shorts,
            array_agg({start_ns: ts_ns, end_ns: ts_ns + dur_ns}) FILTER (WHERE is_span) AS spans
        FROM _drawn_events
        GROUP BY trace, rank, device_key, lane
        HAVING count(*) FILTER (WHERE NOT is_span) > 0
    ),

    pieces AS (
        SELECT
            trace, rank, device_key, lane,
            unnest(interval_subtract(shorts, coalesce(spans, []))) AS span
        FROM lanes
    ),

    -- Some 400,000 slices, of all lanes together.
    extents AS (
        SELECT trace, min(span.start_ns) AS start_ns, max(span.end_ns) AS end_ns
        FROM pieces
        GROUP BY trace
    ),

    grids AS (
        SELECT
            e.trace, e.start_ns,
            CAST(greatest(least(400000 // count(*), 4000), 250) AS BIGINT) AS slice_count,
            CAST(ceil((e.end_ns - e.start_ns) / greatest(least(400000 // count(*), 4000), 250)) AS BIGINT)
                AS slice_ns
        FROM lanes AS l
        INNER JOIN extents AS e ON e.trace = l.trace
        GROUP BY e.trace, e.start_ns, e.end_ns
    ),

    -- Disjoint pieces cut by slices are not many more than both.
    cut AS (
        SELECT
            p.trace, p.rank, p.device_key, p.lane, p.span, g.start_ns, g.slice_ns,
            unnest(
                range(
                    (p.span.start_ns - g.start_ns) // g.slice_ns,
                    (p.span.end_ns - 1 - g.start_ns) // g.slice_ns + 1
                )
            ) AS slice
        FROM pieces AS p
        INNER JOIN grids AS g ON g.trace = p.trace
    ),

    sums AS (
        SELECT
            trace, rank, device_key, lane, slice,
            CAST(
                sum(
                    least(span.end_ns, start_ns + (slice + 1) * slice_ns)
                    - greatest(span.start_ns, start_ns + slice * slice_ns)
                ) AS BIGINT
            ) AS filled_ns
        FROM cut
        GROUP BY trace, rank, device_key, lane, slice
    ),

    slices AS (
        SELECT
            l.trace, l.rank, l.device_key, l.lane, g.slice_ns, unnest(range(g.slice_count)) AS slice
        FROM lanes AS l
        INNER JOIN grids AS g ON g.trace = l.trace
    ),

    filled AS (
        SELECT
            s.trace, s.rank, s.device_key, s.lane,
            CAST(coalesce(sum(f.filled_ns), 0) AS BIGINT) AS busy_ns,
            array_agg(
                CAST(
                    CASE WHEN f.filled_ns > 0 THEN greatest(100 * f.filled_ns // s.slice_ns, 1) ELSE 0 END
                    AS INTEGER
                )
                ORDER BY s.slice
            ) AS filled_pct
        FROM slices AS s
        LEFT JOIN sums AS f
            ON f.slice = s.slice
            AND f.rank = s.rank
            AND f.device_key = s.device_key
            AND f.lane = s.lane
            AND f.trace = s.trace
        GROUP BY s.trace, s.rank, s.device_key, s.lane
    )

SELECT
    l.trace, l.rank, l.device, l.lane, l.event_count,
    f.busy_ns / 1e3 AS busy_us,
    (g.start_ns - l.window_ns) / 1e3 AS start_us,
    g.slice_ns / 1e3 AS slice_us,
    f.filled_pct
FROM lanes AS l
INNER JOIN filled AS f
    ON f.trace = l.trace AND f.rank = l.rank AND f.device_key = l.device_key AND f.lane = l.lane
INNER JOIN grids AS g ON g.trace = l.trace
ORDER BY l.trace, l.rank, l.device, l.lane
