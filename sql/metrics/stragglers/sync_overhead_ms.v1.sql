-- @metric   sync_overhead_ms
-- @version  1
-- @area     stragglers
-- @summary  How long a rank waits in a step for the last rank of the calls that it takes part in;
--           mean over ranks.
-- @grain    trace
-- @reads    collectives collective_calls _waits _match_coverage _windows steps ranks
-- @value    sync_overhead_ms
-- @alias    sync_overhead
-- @coverage match_coverage_ratio | which events of the ranks are one call is
-- @warn     clock_aligned
--           | the clocks of the ranks differ: their offsets (clock_offsets) are taken away; -p
--           align=false compares the clocks as recorded
-- @check    (SELECT count(DISTINCT rank) FROM ranks) > 1 | the trace has fewer than two ranks
-- @check    (SELECT count(*) FROM collectives) > 0 | the trace has no communication
-- @check    (SELECT count(*) FROM collective_calls) > 0 | no call of the ranks was matched
-- @param    align BOOLEAN NULL | Take the offsets of the clocks (clock_offsets) from the times of
--           the ranks before they are compared: true or false; without it where an offset exceeds
--           both its uncertainty and the median lag of the calls.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   sync_overhead_ms DOUBLE value ms lower | Waiting in a step (in the window without
--           steps): sum over its calls, mean over steps, then over ranks.
-- @column   sync_overhead_pct DOUBLE value pct lower | Waiting, of the step; mean over ranks.
-- @column   max_wait_ms DOUBLE value ms lower | Longest wait of a rank in one call.
-- @column   mean_wait_us DOUBLE value us | Mean wait of a rank in a call.
-- @column   by_type MAP value ms | Waiting in a step by kind of call, mean over ranks.
-- @column   per_rank MAP value ms | Waiting of each rank in a step.
-- @column   method VARCHAR value - | steps; or window where no step launched a call: then all calls
--           count.
-- @column   clock_aligned BOOLEAN value - | Whether the offsets of the clocks were taken away: see
--           the parameter align.
-- @column   match_coverage_ratio DOUBLE value ratio | Share of the communication events that are in
--           a matched call: of the events of groups of more than one rank, or of unknown size.
-- @source   metrics 2.I sync_overhead (defect D62), section 7.2 wait
WITH
    -- Whether steps launch calls at all.
    matched AS (
        SELECT
            trace, bool_or(step IS NOT NULL) AS in_steps,
            bool_or(coalesce($align, by_itself)) AS clock_aligned
        FROM _waits
        GROUP BY trace
    ),

    step_times AS (
        SELECT trace, rank, count(*) AS step_count, CAST(sum(dur_ns) AS DOUBLE) AS step_ns
        FROM steps
        GROUP BY trace, rank
    ),

    lengths AS (
        SELECT
            w.trace, w.rank, s.rank IS NOT NULL AS has_steps,
            coalesce(s.step_count, 1) AS step_count,
            coalesce(s.step_ns, w.end_ns - w.start_ns) AS length_ns
        FROM _windows AS w
        INNER JOIN matched AS m ON m.trace = w.trace
        LEFT JOIN step_times AS s ON s.trace = w.trace AND s.rank = w.rank AND m.in_steps
    ),

    waits AS (
        SELECT
            w.trace, w.rank, w.collective, l.step_count, w.wait_ns
        FROM _waits AS w
        INNER JOIN lengths AS l ON l.trace = w.trace AND l.rank = w.rank
        WHERE w.aligned = coalesce($align, w.by_itself)
            AND (w.step IS NOT NULL OR NOT l.has_steps)
    ),

    rank_waits AS (
        SELECT trace, rank, sum(wait_ns) AS wait_ns
        FROM waits
        GROUP BY trace, rank
    ),

    -- A rank that is in no matched call does not wait.
    per_rank AS (
        SELECT
            l.trace, l.rank, l.has_steps,
            coalesce(w.wait_ns, 0) / l.step_count / 1e6 AS wait_ms,
            100.0 * coalesce(w.wait_ns, 0) / nullif(l.length_ns, 0) AS wait_pct
        FROM lengths AS l
        LEFT JOIN rank_waits AS w ON w.trace = l.trace AND w.rank = l.rank
    ),

    totals AS (
        SELECT
            trace,
            avg(wait_ms ORDER BY rank) AS sync_overhead_ms,
            avg(wait_pct ORDER BY rank) AS sync_overhead_pct,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(wait_ms ORDER BY rank)) AS per_rank,
            count(*) AS num_ranks,
            bool_or(has_steps) AS has_steps
        FROM per_rank
        GROUP BY trace
    ),

    calls AS (
        SELECT trace, max(wait_ns) / 1e6 AS max_wait_ms, avg(wait_ns) / 1e3 AS mean_wait_us
        FROM waits
        GROUP BY trace
    ),

    types AS (
        SELECT w.trace, w.collective, sum(w.wait_ns / 1e6 / w.step_count ORDER BY w.rank, w.wait_ns) / max(t.num_ranks) AS wait_ms
        FROM waits AS w
        INNER JOIN totals AS t ON t.trace = w.trace
        GROUP BY w.trace, w.collective
    ),

    type_maps AS (
        SELECT trace, map(array_agg(collective ORDER BY collective), array_agg(wait_ms ORDER BY collective)) AS by_type
        FROM types
        GROUP BY trace
    )

SELECT
    t.trace, t.sync_overhead_ms, t.sync_overhead_pct, c.max_wait_ms, c.mean_wait_us, m.by_type,
    t.per_rank, CASE WHEN t.has_steps THEN 'steps' ELSE 'window' END AS method,
    k.clock_aligned, v.match_coverage_ratio
FROM totals AS t
INNER JOIN matched AS k ON k.trace = t.trace
LEFT JOIN calls AS c ON c.trace = t.trace
LEFT JOIN type_maps AS m ON m.trace = t.trace
LEFT JOIN _match_coverage AS v ON v.trace = t.trace
ORDER BY t.trace
