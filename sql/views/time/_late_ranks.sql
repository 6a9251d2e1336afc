-- @view     _late_ranks
-- @summary  Ranks for which others wait and whose devices idle before calls for their own host
--           longer than those of the others, with what the step could lose by that.
-- @materialize session
-- @requires _rank_account _call_idle _call_spans
-- @reads    _account_shares _account_windows _clock_shifts _host_work
-- @caveat   A row for each rank and part of idle time: data_loading, host, sync, launch. Ranks are
--           compared call by call (see _call_spans), so that what one does before a call does not
--           count against what another does before the next: a rank is late by as much as its
--           device idles longer before the call than that of the rank in the middle, the lower of
--           two. Idle time that the others have too, hidden behind their waiting, is none of being
--           late: it counts as far as the host works longer before the call, and after calls that
--           wait as far as the host waits more often. Of ranks without launches it counts as it is.
--           late_ms is what a step has of all that, excess_ms of it the part; share_ms is what the
--           part has of gain_ms. Of a rank that begins the first step of the trace later than the
--           others by at least twice that, the part is start, and late_ms that.
-- @source   waiting goes back as in straggler_by_rank; idle time as in step_account
WITH
    -- Only waiting has a cause.
    waits AS (
        SELECT trace, rank, cause_rank, sum(time_ms ORDER BY for_rank) AS wait_ms
        FROM _rank_account
        GROUP BY trace, rank, cause_rank
    ),

    calls AS (
        SELECT DISTINCT trace, rank, place, call
        FROM _call_spans
        WHERE is_counted
    ),

    totals AS MATERIALIZED (
        SELECT
            c.trace, c.rank, c.place, c.call, w.work_ns, w.wait_count,
            coalesce(sum(i.time_ns), 0) AS idle_ns,
            coalesce(sum(i.time_ns) FILTER (WHERE i.part = 'data_loading'), 0) AS load_ns,
            coalesce(sum(i.time_ns) FILTER (WHERE i.part = 'host'), 0) AS host_ns,
            coalesce(sum(i.time_ns) FILTER (WHERE i.part = 'sync'), 0) AS sync_ns,
            coalesce(sum(i.time_ns) FILTER (WHERE i.part = 'launch'), 0) AS launch_ns
        FROM calls AS c
        LEFT JOIN _call_idle AS i
            ON i.trace = c.trace
            AND i.rank = c.rank
            AND i.place = c.place
            AND i.call = c.call
            AND i.part IN ('data_loading', 'host', 'sync', 'launch')
        LEFT JOIN _host_work AS w
            ON w.trace = c.trace AND w.rank = c.rank AND w.place = c.place AND w.call = c.call
        GROUP BY c.trace, c.rank, c.place, c.call, w.work_ns, w.wait_count
    ),

    middles AS (
        SELECT
            trace, place, call, quantile_disc(work_ns, 0.5) AS work_ns,
            quantile_disc(wait_count, 0.5) AS wait_count, quantile_disc(idle_ns, 0.5) AS idle_ns,
            quantile_disc(load_ns, 0.5) AS load_ns, quantile_disc(host_ns, 0.5) AS host_ns,
            quantile_disc(sync_ns, 0.5) AS sync_ns, quantile_disc(launch_ns, 0.5) AS launch_ns
        FROM totals
        GROUP BY trace, place, call
    ),

    -- How much more a rank has than the one in the middle, of what lies before each call.
    sums AS (
        SELECT
            t.trace, t.rank,
            sum(greatest(t.idle_ns - m.idle_ns, 0)) AS idle_ns,
            sum(greatest(t.load_ns - m.load_ns, 0)) FILTER (WHERE t.idle_ns > m.idle_ns) AS load_ns,
            sum(greatest(t.host_ns - m.host_ns, 0)) FILTER (WHERE t.idle_ns > m.idle_ns) AS host_ns,
            sum(greatest(t.sync_ns - m.sync_ns, 0)) FILTER (WHERE t.idle_ns > m.idle_ns) AS sync_ns,
            sum(greatest(t.launch_ns - m.launch_ns, 0)) FILTER (WHERE t.idle_ns > m.idle_ns)
                AS launch_ns,
            sum(
                CASE
                    WHEN t.wait_count > m.wait_count
                        THEN greatest(t.work_ns - m.work_ns, 0)
                            + t.sync_ns * (1 - m.wait_count / t.wait_count)
                    ELSE greatest(t.work_ns - m.work_ns, 0)
                END
                ORDER BY t.place, t.call
            ) FILTER (WHERE t.work_ns IS NOT NULL) AS own_ns
        FROM totals AS t
        INNER JOIN middles AS m ON m.trace = t.trace AND m.place = t.place AND m.call = t.call
        GROUP BY t.trace, t.rank
    ),

    -- A rank is late by what it idles longer, as far as its host does more, where that is known. No
    -- part need be longer than in the middle of the ranks.
    late AS (
        SELECT
            t.trace, t.rank, least(t.idle_ns, t.own_ns) / 1e6 / s.share_count AS late_ms,
            unnest(['data_loading', 'host', 'sync', 'launch']) AS part,
            unnest([t.load_ns, t.host_ns, t.sync_ns, t.launch_ns])
                / nullif(t.load_ns + t.host_ns + t.sync_ns + t.launch_ns, 0) AS part_ratio
        FROM sums AS t
        INNER JOIN _account_shares AS s ON s.trace = t.trace AND s.rank = t.rank
    ),

    -- What lies before the first step of a trace is not in it: how much later the rank begins.
    starts AS (
        SELECT
            w.trace, w.rank, count(*) AS window_count, min(w.start_ns - s.shift_ns) AS start_ns
        FROM _account_windows AS w
        INNER JOIN _clock_shifts AS s
            ON s.trace = w.trace AND s.rank = w.rank AND s.aligned = s.by_itself
        WHERE w.is_counted AND w.per = 'step'
        GROUP BY w.trace, w.rank
        HAVING min(w.place) = 1
    ),

    lags AS (
        SELECT
            trace, rank, 'start' AS part, 1 AS part_ratio,
            (start_ns - quantile_disc(start_ns, 0.5) OVER (PARTITION BY trace))
                / 1e6 / window_count AS late_ms
        FROM starts
    ),

    -- It counts where nothing else says why the rank is late.
    causes AS (
        SELECT e.trace, e.rank, e.part, e.part_ratio, e.late_ms
        FROM late AS e
        LEFT JOIN lags AS g ON g.trace = e.trace AND g.rank = e.rank
        WHERE coalesce(g.late_ms < 2 * e.late_ms, TRUE)
        UNION ALL
        SELECT g.trace, g.rank, g.part, g.part_ratio, g.late_ms
        FROM lags AS g
        WHERE NOT EXISTS (
            SELECT 1 FROM late AS e
            WHERE e.trace = g.trace AND e.rank = g.rank AND g.late_ms < 2 * e.late_ms
        )
    ),

    comms AS (
        SELECT
            trace, rank, any_value(step_ms) AS step_ms,
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
            c.trace, c.rank, any_value(c.step_ms) AS step_ms, count(w.rank) AS rank_count,
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
            l.trace, l.rank, l.part, l.part_ratio, least(l.late_ms, w.step_ms) AS late_ms,
            w.rank_count, w.most_ms, w.next_rank, w.least_ms,
            least(w.most_ms, w.least_ms, l.late_ms) AS gain_ms
        FROM causes AS l
        INNER JOIN waited AS w ON w.trace = l.trace AND w.rank = l.rank
        WHERE l.part_ratio > 0 AND w.most_ms IS NOT NULL
    )

SELECT
    trace, rank, part, part_ratio * late_ms AS excess_ms, late_ms, rank_count, most_ms, gain_ms,
    CASE WHEN least_ms < 0.9 * least(most_ms, late_ms) THEN next_rank END AS next_rank,
    part_ratio * gain_ms AS share_ms
FROM gains
WHERE gain_ms > 0
