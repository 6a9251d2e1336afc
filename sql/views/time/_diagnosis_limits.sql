-- @view     _diagnosis_limits
-- @summary  What limits how sure a diagnosis of a trace is: texts, NULL where nothing does.
-- @materialize session
-- @requires _rank_account
-- @reads    _clock_shifts _launch_coverage _match_coverage traces
-- @caveat   steps_limit: fewer than three steps count, or none is marked. clocks_limit: the offsets
--           of the clocks had to be taken away. launches_limit and matches_limit: less than 95 % of
--           the events have a known launch, or of the communication a matched call. ranks_limit:
--           not all ranks of the job were ingested.
WITH
    windows AS (
        SELECT trace, max(window_count) AS window_count, bool_or(per = 'trace') AS is_trace
        FROM _rank_account
        GROUP BY trace
    ),

    clocks AS (
        SELECT trace, max(shift_ns) - min(shift_ns) AS apart_ns
        FROM _clock_shifts
        WHERE aligned AND by_itself
        GROUP BY trace
    )

SELECT
    w.trace,
    CASE
        WHEN w.is_trace THEN 'the trace marks no steps: all of it is one'
        WHEN w.window_count = 1 THEN 'one step counts'
        WHEN w.window_count < 3 THEN w.window_count || ' steps count'
    END AS steps_limit,
    CASE
        WHEN c.apart_ns IS NOT NULL
            THEN printf('the clocks differ by up to %.3f ms, which is taken away', c.apart_ns / 1e6)
    END AS clocks_limit,
    CASE
        WHEN l.launch_coverage_ratio < 0.95
            THEN printf('the launch of %.0f %% of the device events is not known', 100 - 100 * l.launch_coverage_ratio)
    END AS launches_limit,
    CASE
        WHEN m.match_coverage_ratio < 0.95
            THEN printf('%.0f %% of the communication is not matched over the ranks', 100 - 100 * m.match_coverage_ratio)
    END AS matches_limit,
    CASE
        WHEN t.rank_count < t.world_size
            THEN printf('%d of %d ranks were ingested', t.rank_count, t.world_size)
    END AS ranks_limit
FROM windows AS w
LEFT JOIN clocks AS c ON c.trace = w.trace
LEFT JOIN _launch_coverage AS l ON l.trace = w.trace
LEFT JOIN _match_coverage AS m ON m.trace = w.trace
LEFT JOIN traces AS t ON t.trace = w.trace
