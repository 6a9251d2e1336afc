-- @view     step_timeline
-- @summary  One step on the devices of all ranks, to be drawn: the step whose time is nearest the median, or the whole trace where it has no steps.
-- @requires device_events _windows
-- @reads    steps collectives
-- @null     no device event lies in the step
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   step BIGINT dim - | Step; NULL for the whole trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   device BIGINT dim - | Accelerator.
-- @column   lane VARCHAR dim - | compute, comm or copy.
-- @column   start_us DOUBLE dim us | Start, since the first start of the step over all ranks.
-- @column   dur_us DOUBLE value us | Duration.
-- @column   label VARCHAR value - | Kind of the call or name of the event; of joined ones, that of the longest.
-- @column   event_count BIGINT value count | Events: neighbours with gaps too small to be seen are joined.
-- @column   message_bytes BIGINT value bytes | Message sizes of the calls.
-- @caveat   Made to be looked at: what lies closer together than about a six-thousandth of the step, times the number of devices, is drawn as one, and so are calls that overlap and start that close to each other. The metrics do not read it.
-- @source   the event tables; times by the clocks as recorded
WITH
    -- A rank may count its steps more than once.
    counted AS (
        SELECT
            trace, step, ts_ns, dur_ns,
            row_number() OVER (PARTITION BY trace, rank, step ORDER BY ts_ns) AS occurrence
        FROM steps
        WHERE dur_ns > 0 AND rank IS NOT NULL
    ),

    step_means AS (
        SELECT
            trace, step, occurrence, avg(dur_ns) AS mean_ns, min(ts_ns) AS start_ns,
            max(ts_ns + dur_ns) AS end_ns
        FROM counted
        GROUP BY trace, step, occurrence
    ),

    medians AS (
        SELECT trace, quantile_disc(mean_ns, 0.5) AS median_ns
        FROM step_means
        GROUP BY trace
    ),

    chosen AS (
        SELECT s.trace, s.step, s.start_ns, s.end_ns
        FROM step_means AS s
        INNER JOIN medians AS m ON m.trace = s.trace
        QUALIFY row_number() OVER (
            PARTITION BY s.trace ORDER BY abs(s.mean_ns - m.median_ns), s.step, s.occurrence
        ) = 1
    ),

    extents AS (
        SELECT
            trace, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
            CAST(sum(greatest(device_count, 1)) AS DOUBLE) AS device_count
        FROM _windows
        GROUP BY trace
    ),

    windows AS (
        SELECT
            e.trace, c.step,
            coalesce(c.start_ns, e.start_ns) AS start_ns,
            coalesce(c.end_ns, e.end_ns) AS end_ns,
            e.device_count / 6000 * (coalesce(c.end_ns, e.end_ns) - coalesce(c.start_ns, e.start_ns)) AS gap_ns
        FROM extents AS e
        LEFT JOIN chosen AS c ON c.trace = e.trace
    ),

    events AS (
        SELECT
            e.trace, w.step, e.rank, e.device, e.event_id, e.ts_ns, e.ts_ns + e.dur_ns AS end_ns,
            e.dur_ns, w.start_ns AS window_ns, w.gap_ns,
            floor((greatest(e.ts_ns, w.start_ns) - w.start_ns) / w.gap_ns) AS slice,
            CASE WHEN e.class IN ('set', 'graph') THEN 'compute' ELSE e.class END AS lane
        FROM device_events AS e
        INNER JOIN windows AS w
            ON w.trace = e.trace AND e.ts_ns < w.end_ns AND e.ts_ns + e.dur_ns > w.start_ns
        WHERE e.class IN ('compute', 'comm', 'copy', 'set', 'graph') AND e.dur_ns IS NOT NULL
            AND e.rank IS NOT NULL
    ),

    inside AS (
        SELECT
            trace, step, rank, device, lane, event_id, ts_ns, end_ns, dur_ns, window_ns, gap_ns, slice,
            CASE lane WHEN 'comm' THEN lag(end_ns) OVER lane ELSE max(end_ns) OVER before END
                AS before_end_ns,
            lag(dur_ns) OVER lane AS before_dur_ns,
            lag(slice) OVER lane AS before_slice
        FROM events
        WINDOW
            lane AS (PARTITION BY trace, rank, device, lane ORDER BY ts_ns, event_id),
            before AS (
                PARTITION BY trace, rank, device, lane ORDER BY ts_ns, event_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
    ),

    -- A call of some length is a span of its own. That each slice starts one such span at most bounds
    -- their number, however many overlap.
    islands AS (
        SELECT
            trace, step, rank, device, lane, event_id, ts_ns, end_ns, dur_ns, window_ns,
            sum(
                CASE
                    WHEN ts_ns - before_end_ns < gap_ns
                        AND (
                            lane <> 'comm' OR slice = before_slice
                            OR (dur_ns < gap_ns AND before_dur_ns < gap_ns)
                        ) THEN 0
                    ELSE 1
                END
            ) OVER (PARTITION BY trace, rank, device, lane ORDER BY ts_ns, event_id) AS island
        FROM inside
    ),

    named AS (
        SELECT
            i.trace, i.step, i.rank, i.device, i.lane, i.island, i.ts_ns, i.end_ns, i.dur_ns, i.window_ns,
            i.event_id, c.message_bytes, c.collective
        FROM islands AS i
        LEFT JOIN collectives AS c ON c.trace = i.trace AND c.event_id = i.event_id
    ),

    joined AS (
        SELECT
            trace, step, rank, device, lane, island, window_ns,
            min(ts_ns) AS start_ns,
            max(end_ns) AS end_ns,
            count(*) AS event_count,
            TRY_CAST(sum(message_bytes) AS BIGINT) AS message_bytes
        FROM named
        GROUP BY trace, step, rank, device, lane, island, window_ns
    ),

    longest AS (
        SELECT trace, rank, device, lane, island, event_id, collective
        FROM named
        QUALIFY row_number() OVER (
            PARTITION BY trace, rank, device, lane, island ORDER BY dur_ns DESC, event_id
        ) = 1
    ),

    labels AS (
        SELECT l.trace, l.rank, l.device, l.lane, l.island, coalesce(l.collective, e.name) AS label
        FROM longest AS l
        INNER JOIN device_events AS e ON e.trace = l.trace AND e.event_id = l.event_id
    )

SELECT
    j.trace, j.step, j.rank, j.device, j.lane,
    (j.start_ns - j.window_ns) / 1e3 AS start_us,
    (j.end_ns - j.start_ns) / 1e3 AS dur_us,
    CASE WHEN length(l.label) > 80 THEN left(l.label, 79) || '…' ELSE l.label END AS label,
    j.event_count, j.message_bytes
FROM joined AS j
INNER JOIN labels AS l
    ON l.trace = j.trace
    AND l.rank = j.rank
    AND l.device IS NOT DISTINCT FROM j.device
    AND l.lane = j.lane
    AND l.island = j.island
ORDER BY j.trace, j.rank, j.device, j.lane, start_us, j.island
