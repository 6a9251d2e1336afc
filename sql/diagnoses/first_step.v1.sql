-- @diagnosis first_step
-- @version  1
-- @summary  The first step takes longer than the others.
-- @profilers kineto nsys xla
-- @requires _account_windows step_account
-- @reads    _diagnosis_limits
-- @check    (SELECT max(place) FROM _account_windows WHERE per = 'step') >= 2
--           | the trace has fewer than two steps
-- @param    first_step_factor DOUBLE 1.5 | How many times the median of the other steps the first
--           one takes at least.
-- @gain     the mean of the steps that count less that of them without the first; NULL where the
--           first step does not count (of more than two steps the first and the last do not)
-- @shown    step_account
-- @caveat   A step lasts from its start to the next start; the last one is as long as its mark.
-- @source   steps as in avg_step_time
WITH
    step_times AS (
        SELECT
            trace, place, bool_or(is_counted) AS is_counted,
            avg((end_ns - start_ns) / 1e6 ORDER BY rank) AS step_ms
        FROM _account_windows
        WHERE per = 'step'
        GROUP BY trace, place
    ),

    firsts AS (
        SELECT
            f.trace, f.step_ms, f.is_counted, median(o.step_ms) AS median_ms,
            count(*) AS other_count
        FROM step_times AS f
        INNER JOIN step_times AS o ON o.trace = f.trace AND o.place > 1
        WHERE f.place = 1
        GROUP BY f.trace, f.step_ms, f.is_counted
    ),

    -- Ranks may have unlike numbers of steps, so that the first one counts on some.
    gains AS (
        SELECT
            trace, avg(step_ms ORDER BY rank) - avg(other_ms ORDER BY rank) AS gain_ms
        FROM (
            SELECT
                trace, rank, avg((end_ns - start_ns) / 1e6 ORDER BY place) AS step_ms,
                avg((end_ns - start_ns) / 1e6 ORDER BY place) FILTER (WHERE place > 1) AS other_ms
            FROM _account_windows
            WHERE is_counted
            GROUP BY trace, rank
        )
        GROUP BY trace
    ),

    step_parts AS (
        SELECT trace, place, part, sum(time_ns) / 1e6 AS time_ms
        FROM step_account
        GROUP BY trace, place, part
    ),

    devices AS (
        SELECT trace, place, count(*) AS device_count
        FROM (SELECT DISTINCT trace, place, rank, device FROM step_account)
        GROUP BY trace, place
    ),

    -- Where the first step is longer: its parts, less the mean of the others.
    differences AS (
        SELECT
            p.trace, p.part,
            coalesce(sum(p.time_ms / d.device_count ORDER BY p.place) FILTER (WHERE p.place = 1), 0)
                - coalesce(
                    sum(p.time_ms / d.device_count ORDER BY p.place) FILTER (WHERE p.place > 1), 0
                ) / any_value(f.other_count) AS more_ms
        FROM step_parts AS p
        INNER JOIN devices AS d ON d.trace = p.trace AND d.place = p.place
        INNER JOIN firsts AS f ON f.trace = p.trace
        GROUP BY p.trace, p.part
        QUALIFY row_number() OVER (PARTITION BY p.trace ORDER BY more_ms DESC, p.part) = 1
    )

SELECT
    f.trace,
    printf(
        'the first step takes %.3f ms, the others %.3f ms (median)%s; it %s', f.step_ms, f.median_ms,
        CASE WHEN d.more_ms > 0
            THEN printf(', most of it more in the part %s (%.3f ms)', d.part, d.more_ms)
            ELSE ''
        END,
        CASE WHEN f.is_counted THEN 'counts among the steps that are looked at'
            ELSE 'does not count among the steps that are looked at'
        END
    ) AS finding,
    {phase: 'first step'} AS "where",
    CASE WHEN f.is_counted THEN g.gain_ms END AS time_per_step_ms,
    CASE WHEN f.is_counted THEN g.gain_ms END AS gain_ms,
    [CASE WHEN f.is_counted THEN l.steps_limit END] AS limits,
    'compilation, autotuning (cudnn.benchmark, Triton), first allocations and the start of the processes that load data are in it: profile after a warm-up (torch.profiler.schedule(wait=1, warmup=3, active=5)), and keep caches of compiled code between jobs (TORCHINDUCTOR_CACHE_DIR, the compilation cache of JAX)'
        AS advice,
    'SELECT place, part, sum(time_ns) / 1e6 AS time_ms FROM step_account WHERE trace = {trace} AND place <= 3 GROUP BY ALL ORDER BY ALL'
        AS evidence
FROM firsts AS f
INNER JOIN gains AS g ON g.trace = f.trace
INNER JOIN _diagnosis_limits AS l ON l.trace = f.trace
LEFT JOIN differences AS d ON d.trace = f.trace
WHERE f.step_ms >= $first_step_factor * f.median_ms
