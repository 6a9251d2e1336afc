-- @metric   straggler_score
-- @version  1
-- @area     stragglers
-- @summary  How unevenly the ranks wait for each other: longest less shortest waiting time of a
--           rank, of the window.
-- @grain    trace
-- @requires collectives
-- @reads    _waits _wait_causes _match_coverage _windows ranks
-- @value    straggler_score
-- @answer   'rank ' || straggler_rank || ' is waited for'
-- @alias    straggler_metrics
-- @coverage match_coverage_ratio | which events of the ranks are one call is
-- @warn     clock_aligned
--           | the clocks of the ranks differ: their offsets (clock_offsets) are taken away; -p
--           align=false compares the clocks as recorded
-- @null     no call was found on every ingested rank of its group, or the windows are empty
-- @check    (SELECT count(DISTINCT rank) FROM ranks) > 1 | the trace has fewer than two ranks
-- @param    align BOOLEAN NULL | Take the offsets of the clocks (clock_offsets) from the times of
--           the ranks before they are compared: true or false; without it where an offset exceeds
--           both its uncertainty and the median lag of the calls.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   straggler_score DOUBLE value ratio lower | (largest - least over ranks of the sum of
--           waits) / window: 0 where all ranks wait alike; the window is the largest of a rank.
-- @column   straggler_rank BIGINT value - | The rank with the least sum of waits (the lowest of
--           equals): it is the one that is waited for; NULL where it is the last in no call.
--           Victims, which are late mostly because they waited for another rank themselves, are
--           none.
-- @column   max_wait_ms DOUBLE value ms | Largest sum of waits of a rank.
-- @column   min_wait_ms DOUBLE value ms | Least sum.
-- @column   window_ms DOUBLE value ms | Largest window of a rank.
-- @column   comm_delay_ratio DOUBLE value ratio | (largest - least) / largest of the sum of
--           durations of the communication of a rank: what earlier tools called the delay.
-- @column   comm_slowdown_ratio DOUBLE value ratio | Largest / least of those sums: what earlier
--           tools called the slowdown; NULL where a rank has none.
-- @column   per_rank LIST value - | Of each rank in matched calls: how many those are (calls), sum
--           of its waits in them (wait_ms), sum of the durations of all its communication, matched
--           or not (comm_ms).
-- @column   clock_aligned BOOLEAN value - | Whether the offsets of the clocks were taken away: see
--           the parameter align.
-- @column   match_coverage_ratio DOUBLE value ratio | Share of the communication events that are in
--           a matched call: of the events of groups of more than one rank, or of unknown size.
-- @caveat   The rank with most communication time is no straggler: it waits. Ranks in no matched
--           call are left out; ranks of different groups are in different calls.
-- @source   metrics 2.I straggler_score (defect D61: the slow rank has the least communication
--           time, so waits are compared)
WITH
    waits AS (
        SELECT
            trace, rank, count(*) AS calls, sum(wait_ns) AS wait_ns, bool_or(is_last) AS is_last,
            bool_or(aligned) AS aligned
        FROM _waits
        WHERE aligned = coalesce($align, by_itself)
        GROUP BY trace, rank
    ),

    durations AS (
        SELECT trace, rank, sum(dur_ns) AS comm_ns
        FROM collectives
        WHERE dur_ns IS NOT NULL
        GROUP BY trace, rank
    ),

    windows AS (
        SELECT trace, max(end_ns - start_ns) AS window_ns
        FROM _windows
        GROUP BY trace
    ),

    stragglers AS (
        SELECT w.trace, CASE WHEN w.is_last THEN w.rank END AS rank
        FROM waits AS w
        INNER JOIN _wait_causes AS c
            ON c.trace = w.trace AND c.rank = w.rank AND c.aligned = w.aligned
        QUALIFY row_number() OVER (
            PARTITION BY w.trace ORDER BY c.cause_rank IS NOT NULL, w.wait_ns, w.rank
        ) = 1
    ),

    totals AS (
        SELECT
            w.trace,
            bool_or(w.aligned) AS clock_aligned,
            max(w.wait_ns) AS max_ns,
            min(w.wait_ns) AS min_ns,
            max(d.comm_ns) AS max_comm_ns,
            min(d.comm_ns) AS min_comm_ns,
            array_agg({
                rank: w.rank, calls: w.calls, wait_ms: w.wait_ns / 1e6, comm_ms: d.comm_ns / 1e6
            } ORDER BY w.rank) AS per_rank
        FROM waits AS w
        INNER JOIN durations AS d ON d.trace = w.trace AND d.rank = w.rank
        GROUP BY w.trace
    )

SELECT
    t.trace,
    (t.max_ns - t.min_ns) / nullif(CAST(w.window_ns AS DOUBLE), 0) AS straggler_score,
    s.rank AS straggler_rank,
    t.max_ns / 1e6 AS max_wait_ms,
    t.min_ns / 1e6 AS min_wait_ms,
    w.window_ns / 1e6 AS window_ms,
    (t.max_comm_ns - t.min_comm_ns) / nullif(CAST(t.max_comm_ns AS DOUBLE), 0)
        AS comm_delay_ratio,
    t.max_comm_ns / nullif(CAST(t.min_comm_ns AS DOUBLE), 0) AS comm_slowdown_ratio,
    t.per_rank,
    t.clock_aligned,
    v.match_coverage_ratio
FROM totals AS t
INNER JOIN windows AS w ON w.trace = t.trace
INNER JOIN stragglers AS s ON s.trace = t.trace
LEFT JOIN _match_coverage AS v ON v.trace = t.trace
ORDER BY t.trace
