-- @diagnosis unexplained_time
-- @version  1
-- @summary  The largest part of the step that no other diagnosis explains: devices are idle, wait
--           or communicate, and the trace does not hold why.
-- @profilers kineto nsys xla
-- @requires _rank_account _cost_bounds
-- @reads    _account_windows _windows _idle_labels _gaps host_events cards process_groups
--           _range_meanings _wording _diagnosis_limits _match_doubts
-- @param    least_unexplained_share DOUBLE 0.1 | Share of the step from which a part that nothing
--           explains is said.
-- @gain     of the parts other and unknown of step_account that they were gone on all ranks: a rank
--           loses that time, and of its exposed waiting for another rank no more than that one
--           loses, and the step what the rank loses that loses least. Of wait, what a rank waits
--           for another beyond all that this one idles and copies, and that it computes and
--           communicates longer than the median of the ranks; of unmatched, what is longer than the
--           compute that could hide it (the rest is in exposed_comm); of both on the rank that has
--           least of it
-- @shown    step_account
-- @check    (SELECT count(*) FROM cards WHERE pp > 1)
--           + (SELECT count(*) FROM process_groups WHERE dim = 'pp' AND group_size > 1)
--           + (SELECT count(*) FROM _range_meanings WHERE is_stage) = 0
--           | there is a pipeline, whose stages idle and wait for each other: see pipeline_bubble
-- @caveat   It says where to look, not what is wrong: of these parts the trace does not hold the
--           cause.
-- @source   step_account
WITH
    rank_times AS MATERIALIZED (
        SELECT
            trace, rank, any_value(step_ms) AS step_ms,
            coalesce(sum(time_ms) FILTER (WHERE part = 'compute'), 0) AS compute_ms,
            coalesce(sum(time_ms) FILTER (WHERE part = 'unmatched'), 0) AS unmatched_ms,
            coalesce(sum(time_ms) FILTER (WHERE part = 'other'), 0) AS other_ms,
            coalesce(sum(time_ms) FILTER (WHERE part = 'unknown'), 0) AS unknown_ms,
            coalesce(
                sum(time_ms ORDER BY part)
                    FILTER (WHERE part NOT IN ('compute', 'graph', 'transfer', 'unmatched', 'wait')), 0
            ) AS idle_ms,
            coalesce(
                sum(time_ms ORDER BY part)
                    FILTER (WHERE part IN ('compute', 'graph', 'transfer', 'unmatched')), 0
            ) AS busy_ms,
            coalesce(
                sum(hidden_ms ORDER BY part, for_rank)
                    FILTER (WHERE part IN ('transfer', 'wait', 'unmatched')), 0
            ) AS hidden_ms
        FROM _rank_account
        GROUP BY trace, rank
    ),

    -- What a rank does later or longer than others, which other diagnoses say.
    excuses AS (
        SELECT
            trace, rank,
            idle_ms + greatest(busy_ms - median(busy_ms) OVER (PARTITION BY trace), 0) AS time_ms
        FROM rank_times
    ),

    waits AS (
        SELECT
            w.trace, w.rank, w.cause_rank, greatest(w.wait_ms - coalesce(e.time_ms, 0), 0) AS time_ms
        FROM (
            SELECT trace, rank, cause_rank, sum(time_ms ORDER BY for_rank) AS wait_ms
            FROM _rank_account
            WHERE part = 'wait'
            GROUP BY trace, rank, cause_rank
        ) AS w
        LEFT JOIN excuses AS e ON e.trace = w.trace AND e.rank = w.cause_rank
    ),

    rank_waits AS (
        SELECT trace, rank, sum(time_ms ORDER BY cause_rank) AS time_ms
        FROM waits
        GROUP BY trace, rank
    ),

    rank_parts AS (
        SELECT trace, rank, step_ms, 'other' AS part, other_ms AS time_ms
        FROM rank_times
        UNION ALL
        SELECT trace, rank, step_ms, 'unknown', unknown_ms
        FROM rank_times
        UNION ALL
        SELECT t.trace, t.rank, t.step_ms, 'wait', coalesce(w.time_ms, 0)
        FROM rank_times AS t
        LEFT JOIN rank_waits AS w ON w.trace = t.trace AND w.rank = t.rank
        UNION ALL
        SELECT
            trace, rank, step_ms, 'unmatched',
            greatest(unmatched_ms - greatest(compute_ms - hidden_ms, 0), 0)
        FROM rank_times
    ),

    parts AS (
        SELECT
            p.trace, p.part, count(*) AS rank_count, avg(p.step_ms ORDER BY p.rank) AS step_ms,
            avg(p.time_ms ORDER BY p.rank) AS own_ms,
            coalesce(any_value(b.time_ms), avg(p.time_ms ORDER BY p.rank)) AS time_ms,
            coalesce(any_value(b.gain_ms), min(p.time_ms)) AS gain_ms,
            CASE WHEN count(*) > 1
                THEN printf(
                    ' as mean over the ranks, up to %.3f ms (rank %d)', max(p.time_ms),
                    arg_max(p.rank, {time_ms: p.time_ms, rank: -p.rank})
                )
                ELSE ''
            END AS ranks_text
        FROM rank_parts AS p
        LEFT JOIN _cost_bounds AS b
            ON b.trace = p.trace AND b.subject = 'part' AND b.key = p.part
        GROUP BY p.trace, p.part
        HAVING avg(p.time_ms) >= $least_unexplained_share * avg(p.step_ms)
    ),

    -- What of a step lies before the first and after the last event of the devices.
    edges AS (
        SELECT trace, avg(edge_ms ORDER BY rank) AS edge_ms
        FROM (
            SELECT
                w.trace, w.rank,
                avg(
                    greatest(least(d.start_ns, w.end_ns) - w.start_ns, 0)
                    + greatest(w.end_ns - greatest(d.end_ns, w.start_ns), 0)
                ) / 1e6 AS edge_ms
            FROM _account_windows AS w
            INNER JOIN _windows AS d ON d.trace = w.trace AND d.rank = w.rank
            WHERE w.is_counted AND d.basis = 'device'
            GROUP BY w.trace, w.rank
        )
        GROUP BY trace
    ),

    cause_sums AS (
        SELECT trace, cause_rank, sum(time_ms ORDER BY rank) AS time_ms
        FROM waits
        WHERE time_ms > 0
        GROUP BY trace, cause_rank
    ),

    cause_shares AS (
        SELECT
            trace, cause_rank, 100 * time_ms / sum(time_ms) OVER of_trace AS share_pct,
            row_number() OVER (PARTITION BY trace ORDER BY time_ms DESC, cause_rank) AS place
        FROM cause_sums
        WINDOW of_trace AS (PARTITION BY trace)
    ),

    causes AS (
        SELECT
            trace,
            string_agg(
                printf(
                    '%s (%.0f %%)', coalesce('for rank ' || cause_rank, 'in calls that take the others less'),
                    share_pct
                ), ', ' ORDER BY place
            ) AS names
        FROM cause_shares
        WHERE place <= 3
        GROUP BY trace
    ),

    unknowns AS (
        SELECT
            trace, sum(spans_per_step ORDER BY rank) AS spans_per_step,
            max(longest_ms) AS longest_ms, arg_max(rank, {longest_ms: longest_ms, rank: -rank}) AS rank
        FROM _idle_labels
        WHERE part = 'unknown' AND kind = 'all'
        GROUP BY trace
    ),

    gaps AS (
        SELECT u.trace, u.rank, min(g.start_ns) AS start_ns, min(g.end_ns) AS end_ns
        FROM unknowns AS u
        INNER JOIN _gaps AS g
            ON g.trace = u.trace AND g.rank = u.rank AND g.gap_ns / 1e6 = u.longest_ms
        INNER JOIN parts AS p ON p.trace = u.trace AND p.part = 'unknown'
        GROUP BY u.trace, u.rank
        HAVING count(*) = 1
    ),

    -- The shortest thing on the host that runs during half of the longest gap.
    beside AS (
        SELECT h.trace, arg_min(h.name, {dur_ns: h.dur_ns, name: h.name}) AS name
        FROM gaps AS g
        INNER JOIN host_events AS h
            ON h.trace = g.trace
            AND h.rank = g.rank
            AND h.ts_ns < g.end_ns
            AND h.ts_ns + h.dur_ns > g.start_ns
        WHERE h.class <> 'python'
            AND least(h.ts_ns + h.dur_ns, g.end_ns) - greatest(h.ts_ns, g.start_ns)
                >= (g.end_ns - g.start_ns) / 2
        GROUP BY h.trace
    )

SELECT
    p.trace,
    CASE p.part
        WHEN 'other' THEN printf(
            'devices are idle for %.3f ms %s (%.1f %%)%s although kernels had been launched; %.3f ms of it lie before the first or after the last event of the devices',
            p.own_ms, w.of_what, 100 * p.own_ms / p.step_ms, p.ranks_text,
            least(e.edge_ms, p.own_ms)
        )
        WHEN 'unknown' THEN printf(
            'devices are idle for %.3f ms %s (%.1f %%)%s, in %.0f gaps, the longest %.3f ms, and the trace does not say what launched the kernels after them%s',
            p.own_ms, w.of_what, 100 * p.own_ms / p.step_ms, p.ranks_text,
            u.spans_per_step / p.rank_count, u.longest_ms,
            coalesce('; beside the longest the host is in ' || left(h.name, 80), '')
        )
        WHEN 'wait' THEN printf(
            'ranks wait in calls for %.3f ms %s (%.1f %%)%s beyond what the ranks that come last idle, compute or communicate longer: %s',
            p.own_ms, w.of_what, 100 * p.own_ms / p.step_ms, p.ranks_text, c.names
        )
        ELSE printf(
            'communication is exposed for %.3f ms %s (%.1f %%)%s longer than all compute that could hide it, and its calls are not matched over the ranks: it may be waiting or transfer',
            p.own_ms, w.of_what, 100 * p.own_ms / p.step_ms, p.ranks_text
        )
    END AS finding,
    {kind: p.part} AS "where",
    p.time_ms AS time_per_step_ms,
    p.gain_ms,
    [
        l.steps_limit, CASE WHEN p.part = 'wait' THEN l.clocks_limit END,
        CASE WHEN p.part IN ('wait', 'unmatched') THEN l.ranks_limit END,
        CASE WHEN p.part = 'wait' THEN doubts.doubts_limit END
    ] AS limits,
    CASE
        WHEN p.part = 'other'
            THEN 'look whether the trace is whole (a filtered or cut file, another process on the device); else what the kernels wait for: events between streams, the default stream, a copy or call on another device'
        WHEN p.part = 'unknown' AND w.framework = 'xla'
            THEN 'look at the host in these gaps: compilation (jax_log_compiles, shapes that change), allocation of buffers (donate_argnums), input that is not there yet, results that are fetched at once (block_until_ready, device_get); start the next program before'
        WHEN p.part = 'unknown'
            THEN 'record the host too, from before the first launch on, so that the trace says why the devices idle; look what the host does in the longest gaps'
        WHEN p.part = 'wait'
            THEN 'no one rank is to blame: look what differs from call to call: other processes on the cores (pin the processes, as many cores as threads that run), clocks and power of the devices, the network; fewer, larger calls wait less often'
        ELSE 'record all ranks of the same steps, with their process groups, and look again; else communicate less'
    END AS advice,
    CASE p.part
        WHEN 'unknown' THEN 'WITH gaps AS (SELECT rank, start_ns, end_ns FROM _gaps WHERE trace = {trace} ORDER BY gap_ns DESC LIMIT 5) SELECT g.rank, (g.end_ns - g.start_ns) / 1e6 AS gap_ms, h.name, max(h.dur_ns) / 1e6 AS longest_ms FROM gaps AS g INNER JOIN host_events AS h ON h.rank = g.rank AND h.ts_ns < g.end_ns AND h.ts_ns + h.dur_ns > g.start_ns WHERE h.trace = {trace} AND h.dur_ns > (g.end_ns - g.start_ns) / 4 GROUP BY ALL ORDER BY ALL DESC'
        WHEN 'other' THEN 'SELECT rank, device, start_ns, (end_ns - start_ns) / 1e6 AS gap_ms FROM _idle_parts WHERE trace = {trace} AND part = ''other'' ORDER BY gap_ms DESC LIMIT 20'
        ELSE 'SELECT rank, part, for_rank, cause_rank, time_ms, step_ms FROM _rank_account WHERE trace = {trace} AND part IN (''wait'', ''unmatched'') ORDER BY time_ms DESC'
    END AS evidence
FROM parts AS p
INNER JOIN _wording AS w ON w.trace = p.trace
INNER JOIN _diagnosis_limits AS l ON l.trace = p.trace
LEFT JOIN _match_doubts AS doubts ON doubts.trace = p.trace
LEFT JOIN edges AS e ON e.trace = p.trace
LEFT JOIN causes AS c ON c.trace = p.trace
LEFT JOIN unknowns AS u ON u.trace = p.trace
LEFT JOIN beside AS h ON h.trace = p.trace
WHERE p.gain_ms > 0
QUALIFY row_number() OVER (PARTITION BY p.trace ORDER BY p.own_ms DESC, p.part) = 1
