-- @view     _late_ranks
-- @summary  Ranks for which others wait and whose devices idle for their own host longer than the
--           median of the others, with what the step could lose by that.
-- @materialize session
-- @requires _rank_account
-- @reads    _account_windows _clock_shifts _host_work
-- @caveat   A row for each rank and part of idle time: data_loading, host, sync, launch, and start,
--           where fewer than three steps count, for how much later than the others the rank begins
--           the first of them. Idle time that the others have too, hidden behind their waiting, is
--           none of being late: it counts as far as the host works longer than the median of the
--           others, and sync as far as it waits for the device more often. Of a rank or others
--           without launches it counts as it is. excess_ms is of the part, late_ms of all parts;
--           share_ms is what the part has of gain_ms.
-- @source   waiting goes back as in straggler_by_rank; idle time as in step_account
WITH
    ranks AS (
        SELECT DISTINCT trace, rank
        FROM _rank_account
    ),

    causes AS (
        SELECT unnest(['data_loading', 'host', 'sync', 'launch']) AS part
    ),

    -- What a rank was late by before, it brings into the first step that counts.
    starts AS (
        SELECT
            w.trace, w.rank, count(*) AS window_count,
            min(w.start_ns - s.shift_ns) AS start_ns
        FROM _account_windows AS w
        INNER JOIN _clock_shifts AS s
            ON s.trace = w.trace AND s.rank = w.rank AND s.aligned = s.by_itself
        WHERE w.is_counted AND w.per = 'step'
        GROUP BY w.trace, w.rank
    ),

    -- Relative to the first, as numbers of this size have no fractions.
    lags AS (
        SELECT
            trace, rank,
            (start_ns - min(start_ns) OVER (PARTITION BY trace)) / 1e6 / window_count AS time_ms
        FROM starts
        WHERE window_count < 3
    ),

    idle AS MATERIALIZED (
        SELECT r.trace, r.rank, c.part, coalesce(sum(a.time_ms), 0) AS time_ms
        FROM ranks AS r
        CROSS JOIN causes AS c
        LEFT JOIN _rank_account AS a ON a.trace = r.trace AND a.rank = r.rank AND a.part = c.part
        GROUP BY r.trace, r.rank, c.part
        UNION ALL
        SELECT trace, rank, 'start', time_ms
        FROM lags
    ),

    totals AS (
        SELECT trace, rank, sum(time_ms ORDER BY part) AS idle_ms
        FROM idle
        GROUP BY trace, rank
    ),

    waits AS (
        SELECT trace, rank, cause_rank, sum(time_ms ORDER BY for_rank) AS wait_ms
        FROM _rank_account
        WHERE part = 'wait' AND cause_rank <> rank
        GROUP BY trace, rank, cause_rank
    ),

    medians AS (
        SELECT t.trace, t.rank, median(o.idle_ms) AS median_ms
        FROM totals AS t
        INNER JOIN totals AS o ON o.trace = t.trace AND o.rank <> t.rank
        WHERE EXISTS (
            SELECT 1 FROM waits AS w WHERE w.trace = t.trace AND w.cause_rank = t.rank
        )
        GROUP BY t.trace, t.rank
    ),

    -- How much longer the host of a rank works than those of the others, which does not depend on
    -- who waits for whom; and how much of its calls that wait the others do not have.
    hosts AS (
        SELECT
            h.trace, h.rank,
            greatest(h.work_ms - median(o.work_ms), 0) AS work_ms,
            greatest(h.load_ms - median(o.load_ms), 0) AS load_ms,
            greatest(
                h.work_ms - h.load_ms - median(o.work_ms - o.load_ms), 0
            ) AS rest_ms,
            CASE WHEN h.waits > 0 THEN greatest(1 - median(o.waits) / h.waits, 0) ELSE 1 END
                AS waits_ratio
        FROM _host_work AS h
        INNER JOIN medians AS m ON m.trace = h.trace AND m.rank = h.rank
        INNER JOIN _host_work AS o ON o.trace = h.trace AND o.rank <> h.rank
        GROUP BY h.trace, h.rank, h.work_ms, h.load_ms, h.waits
    ),

    part_medians AS (
        SELECT i.trace, i.rank, i.part, i.time_ms, median(o.time_ms) AS median_ms
        FROM idle AS i
        INNER JOIN medians AS m ON m.trace = i.trace AND m.rank = i.rank
        INNER JOIN idle AS o ON o.trace = i.trace AND o.part = i.part AND o.rank <> i.rank
        GROUP BY i.trace, i.rank, i.part, i.time_ms
    ),

    parts AS (
        SELECT
            p.trace, p.rank, p.part, p.time_ms,
            greatest(
                CASE
                    WHEN h.rank IS NULL OR p.part = 'start' THEN p.time_ms - p.median_ms
                    WHEN p.part = 'sync'
                        THEN least(p.time_ms - p.median_ms, p.time_ms * h.waits_ratio)
                    WHEN p.part = 'data_loading' THEN least(p.time_ms - p.median_ms, h.load_ms)
                    ELSE least(p.time_ms - p.median_ms, h.rest_ms)
                END, 0
            ) AS excess_ms,
            -- What bounds all parts together.
            CASE
                WHEN h.rank IS NULL THEN p.time_ms
                WHEN p.part = 'start' THEN greatest(p.time_ms - p.median_ms, 0)
                WHEN p.part = 'sync' THEN p.time_ms * h.waits_ratio
            END AS own_bound_ms,
            h.work_ms
        FROM part_medians AS p
        LEFT JOIN hosts AS h ON h.trace = p.trace AND h.rank = p.rank
    ),

    late AS (
        SELECT
            p.trace, p.rank, t.idle_ms, m.median_ms, sum(p.excess_ms ORDER BY p.part) AS parts_ms,
            least(
                t.idle_ms - m.median_ms,
                coalesce(any_value(p.work_ms), 0) + coalesce(sum(p.own_bound_ms ORDER BY p.part), 0)
            ) AS late_ms
        FROM parts AS p
        INNER JOIN totals AS t ON t.trace = p.trace AND t.rank = p.rank
        INNER JOIN medians AS m ON m.trace = p.trace AND m.rank = p.rank
        GROUP BY p.trace, p.rank, t.idle_ms, m.median_ms
    ),

    comms AS (
        SELECT
            trace, rank,
            coalesce(sum(time_ms) FILTER (WHERE part = 'transfer'), 0) AS transfer_ms,
            coalesce(
                sum(time_ms ORDER BY part, for_rank) FILTER (WHERE part IN ('wait', 'unmatched')), 0
            ) AS slack_ms
        FROM _rank_account
        GROUP BY trace, rank
    ),

    -- A step cannot become shorter than what any other rank does without waiting.
    waited AS (
        SELECT
            c.trace, c.rank, count(w.rank) AS rank_count,
            max(w.wait_ms + greatest(o.transfer_ms - c.transfer_ms, 0)) AS most_ms,
            min(o.slack_ms + greatest(o.transfer_ms - c.transfer_ms, 0)) AS least_ms,
            arg_min(o.rank, o.slack_ms + greatest(o.transfer_ms - c.transfer_ms, 0)) AS next_rank
        FROM comms AS c
        INNER JOIN comms AS o ON o.trace = c.trace AND o.rank <> c.rank
        LEFT JOIN waits AS w ON w.trace = c.trace AND w.cause_rank = c.rank AND w.rank = o.rank
        GROUP BY c.trace, c.rank
    ),

    gains AS (
        SELECT
            l.trace, l.rank, l.idle_ms, l.median_ms, l.parts_ms, l.late_ms, w.rank_count,
            w.most_ms, least(w.most_ms, w.least_ms, l.late_ms) AS gain_ms,
            CASE WHEN w.least_ms < 0.9 * least(w.most_ms, l.late_ms) THEN w.next_rank END
                AS next_rank
        FROM late AS l
        INNER JOIN waited AS w ON w.trace = l.trace AND w.rank = l.rank
        WHERE l.late_ms > 0 AND w.most_ms > 0
    )

SELECT
    g.trace, g.rank, p.part, p.time_ms, p.excess_ms, g.idle_ms, g.median_ms, g.late_ms,
    g.rank_count, g.most_ms, g.gain_ms, g.next_rank,
    -- Beyond the excess of the parts, by what they have besides.
    coalesce(p.excess_ms / nullif(g.parts_ms, 0), 0) * least(g.parts_ms, g.gain_ms)
        + coalesce((p.time_ms - p.excess_ms) / nullif(g.idle_ms - g.parts_ms, 0), 0)
        * greatest(g.gain_ms - g.parts_ms, 0) AS share_ms
FROM gains AS g
INNER JOIN parts AS p ON p.trace = g.trace AND p.rank = g.rank
WHERE g.gain_ms > 0
