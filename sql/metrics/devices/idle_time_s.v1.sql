-- @metric   idle_time_s
-- @version  1
-- @area     devices
-- @summary  Time of its window in which a device of a rank does nothing, mean over ranks.
-- @grain    trace
-- @requires device_events
-- @reads    _rank_times _gap_sizes
-- @value    idle_time_s
-- @null     no device event has a duration
-- @param    gap_us DOUBLE 10 | Gaps from this length on are macro gaps: shorter ones are about what
--           it takes to launch a kernel, longer ones a wait for something else.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   idle_time_s DOUBLE value s lower | Window of a rank - |all device events|, summed over
--           the devices of a rank, mean over ranks.
-- @column   idle_pct DOUBLE value pct lower | 100 x idle / window, mean over ranks.
-- @column   busy_time_s DOUBLE value s | |all device events|, mean over ranks.
-- @column   window_s DOUBLE value s | First start to last end of the device events of a rank, times
--           its devices; mean over ranks.
-- @column   micro_idle_time_s DOUBLE value s lower | Gaps between busy spans shorter than gap_us,
--           mean over ranks.
-- @column   macro_idle_time_s DOUBLE value s lower | Gaps not shorter, mean over ranks.
-- @column   edge_idle_time_s DOUBLE value s | Before the first and after the last event of a
--           device, while another device of its rank works: with micro and macro it is idle_time_s.
-- @column   idle_all_ranks_s DOUBLE value s | Idle time of all ranks.
-- @column   per_rank MAP value s | Idle time of each rank.
-- @caveat   A device that waits inside a kernel of communication is busy here.
-- @source   metrics 2.A idle_time_s and micro/macro_idle_time (defect D11)
WITH
    rank_gaps AS (
        SELECT
            trace, rank,
            coalesce(sum(idle_ns) FILTER (WHERE gap_ns < 1e3 * $gap_us), 0) AS micro_ns,
            coalesce(sum(idle_ns) FILTER (WHERE gap_ns >= 1e3 * $gap_us), 0) AS macro_ns
        FROM _gap_sizes
        GROUP BY trace, rank
    ),

    per_rank AS (
        SELECT
            t.trace, t.rank, t.window_ns, t.busy_ns,
            t.window_ns - t.busy_ns AS idle_ns,
            TRY_CAST(coalesce(g.micro_ns, 0) AS BIGINT) AS micro_ns,
            TRY_CAST(coalesce(g.macro_ns, 0) AS BIGINT) AS macro_ns
        FROM _rank_times AS t
        LEFT JOIN rank_gaps AS g ON g.trace = t.trace AND g.rank = t.rank
        WHERE t.basis = 'device'
    )

SELECT
    trace,
    avg(idle_ns) / 1e9 AS idle_time_s,
    avg(100.0 * idle_ns / nullif(window_ns, 0) ORDER BY rank) AS idle_pct,
    avg(busy_ns) / 1e9 AS busy_time_s,
    avg(window_ns) / 1e9 AS window_s,
    avg(micro_ns) / 1e9 AS micro_idle_time_s,
    avg(macro_ns) / 1e9 AS macro_idle_time_s,
    avg(idle_ns - micro_ns - macro_ns) / 1e9 AS edge_idle_time_s,
    sum(idle_ns) / 1e9 AS idle_all_ranks_s,
    map(
        array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
        array_agg(idle_ns / 1e9 ORDER BY rank)
    ) AS per_rank
FROM per_rank
GROUP BY trace
ORDER BY trace
