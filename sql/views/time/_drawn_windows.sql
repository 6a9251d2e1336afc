-- @view     _drawn_windows
-- @summary  The step of a trace that is drawn, the one whose time is nearest the median, with its
--           bounds over the ranks, offsets of clocks taken away where _clock_shifts says so; the
--           whole trace where it has no steps.
-- @requires _windows _clock_shifts
-- @reads    steps
WITH
    -- A rank may count its steps more than once.
    counted AS (
        SELECT
            s.trace, s.step, s.ts_ns - o.shift_ns AS ts_ns, s.dur_ns,
            row_number() OVER (PARTITION BY s.trace, s.rank, s.step ORDER BY s.ts_ns) AS occurrence
        FROM steps AS s
        INNER JOIN _clock_shifts AS o
            ON o.trace = s.trace AND o.rank = s.rank AND o.aligned = o.by_itself
        WHERE s.dur_ns > 0
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
            w.trace, min(w.start_ns - o.shift_ns) AS start_ns, max(w.end_ns - o.shift_ns) AS end_ns
        FROM _windows AS w
        INNER JOIN _clock_shifts AS o
            ON o.trace = w.trace AND o.rank = w.rank AND o.aligned = o.by_itself
        GROUP BY w.trace
    )

SELECT
    e.trace, c.step,
    coalesce(c.start_ns, e.start_ns) AS start_ns,
    coalesce(c.end_ns, e.end_ns) AS end_ns
FROM extents AS e
LEFT JOIN chosen AS c ON c.trace = e.trace
