-- @metric   bubble_time_s
-- @version  1
-- @area     devices
-- @summary  Time in which a device waits: doing nothing at all, or inside a communication whose
--           last rank has not come yet.
-- @grain    trace
-- @requires device_events
-- @reads    _rank_times _waits _wait_exposures _match_coverage
-- @value    bubble_time_s
-- @coverage match_coverage_ratio | which events of the ranks are one call is
-- @warn     clock_aligned
--           | the clocks of the ranks differ: their offsets (clock_offsets) are taken away; -p
--           align=false compares the clocks as recorded
-- @param    align BOOLEAN NULL | Take the offsets of the clocks (clock_offsets) from the times of
--           the ranks before they are compared: true or false; without it where an offset exceeds
--           both its uncertainty and the median lag of the calls: the waits change, the bubble does
--           not.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   bubble_time_s DOUBLE value s lower | Window - union of all device events; mean over
--           ranks.
-- @column   bubble_ratio DOUBLE value ratio lower | The same over the window, mean over ranks.
-- @column   comm_wait_s DOUBLE value s lower | Union of the times in which a rank is in a matched
--           call before its last rank is; mean over ranks. NULL where no call is matched.
-- @column   exposed_comm_wait_s DOUBLE value s lower | Part of that without compute beside it.
-- @column   waiting_s DOUBLE value s lower | Doing nothing, or waiting without compute beside it:
--           bubble + exposed wait; mean over ranks.
-- @column   waiting_ratio DOUBLE value ratio lower | The same over the window, mean over ranks.
-- @column   per_rank LIST value - | The same of each rank.
-- @column   clock_aligned BOOLEAN value - | NULL where no call is matched. Whether the offsets of
--           the clocks were taken away: see the parameter align.
-- @column   match_coverage_ratio DOUBLE value ratio | Share of the communication events that are in
--           a matched call: of the events of groups of more than one rank, or of unknown size; the
--           waits rest on those.
-- @source   metrics 2.E bubble_time_s (defect D11: waiting inside a kernel is no idle time, and is
--           said by itself)
WITH
    matched AS (
        SELECT
            trace, bool_or(by_itself) AS by_itself,
            bool_or(coalesce($align, by_itself)) AS clock_aligned
        FROM _waits
        GROUP BY trace
    ),

    per_rank AS (
        SELECT
            t.trace, t.rank, t.window_ns, t.window_ns - t.busy_ns AS idle_ns,
            CASE WHEN m.trace IS NOT NULL THEN coalesce(e.wait_ns, 0) END AS wait_ns,
            CASE WHEN m.trace IS NOT NULL THEN coalesce(e.exposed_ns, 0) END AS exposed_ns
        FROM _rank_times AS t
        LEFT JOIN matched AS m ON m.trace = t.trace
        LEFT JOIN _wait_exposures AS e
            ON e.trace = t.trace AND e.rank = t.rank AND e.aligned = coalesce($align, m.by_itself)
        WHERE t.basis = 'device'
    ),

    totals AS (
        SELECT
            trace,
            avg(idle_ns / 1e9 ORDER BY rank) AS bubble_time_s,
            avg(idle_ns / nullif(CAST(window_ns AS DOUBLE), 0) ORDER BY rank) AS bubble_ratio,
            avg(wait_ns / 1e9 ORDER BY rank) AS comm_wait_s,
            avg(exposed_ns / 1e9 ORDER BY rank) AS exposed_comm_wait_s,
            avg((idle_ns + coalesce(exposed_ns, 0)) / 1e9 ORDER BY rank) AS waiting_s,
            avg((idle_ns + coalesce(exposed_ns, 0)) / nullif(CAST(window_ns AS DOUBLE), 0) ORDER BY rank)
                AS waiting_ratio,
            array_agg({
                rank: rank, window_s: window_ns / 1e9, bubble_time_s: idle_ns / 1e9,
                comm_wait_s: wait_ns / 1e9, exposed_comm_wait_s: exposed_ns / 1e9
            } ORDER BY rank) AS per_rank
        FROM per_rank
        GROUP BY trace
    )

SELECT
    t.trace, t.bubble_time_s, t.bubble_ratio, t.comm_wait_s, t.exposed_comm_wait_s, t.waiting_s,
    t.waiting_ratio, t.per_rank, m.clock_aligned, v.match_coverage_ratio
FROM totals AS t
LEFT JOIN matched AS m ON m.trace = t.trace
LEFT JOIN _match_coverage AS v ON v.trace = t.trace
ORDER BY t.trace
