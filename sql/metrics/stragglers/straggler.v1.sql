-- @metric   straggler
-- @version  1
-- @area     stragglers
-- @summary  Which ranks hold up the others: imbalance of compute, who is waited for, and how times
--           vary over steps and ranks.
-- @grain    trace
-- @requires ranks
-- @reads    _rank_times _step_times _waits _wait_causes _match_coverage steps
-- @value    load_imbalance_pct
-- @answer   CASE WHEN num_stragglers = 0 THEN 'no rank is a straggler' ELSE
--           list_aggregate(list_transform(stragglers[1:3], lambda s: 'rank ' || s.rank || CASE
--           s.reason WHEN 'compute' THEN ' computes longer' WHEN 'waited_for' THEN ' is waited for'
--           ELSE ' computes longer and is waited for' END), 'string_agg', ', ') || CASE WHEN
--           num_stragglers > 3 THEN ' and ' || (num_stragglers - 3) || ' more' ELSE '' END END
-- @coverage match_coverage_ratio | which events of the ranks are one call is
-- @warn     clock_aligned
--           | the clocks of the ranks differ: their offsets (clock_offsets) are taken away; -p
--           align=false compares the clocks as recorded
-- @check    (SELECT count(DISTINCT rank) FROM ranks) > 1 | the trace has fewer than two ranks
-- @null     no rank computes on a device
-- @param    align BOOLEAN NULL | Take the offsets of the clocks (clock_offsets) from the times of
--           the ranks before they are compared: true or false; without it where an offset exceeds
--           both its uncertainty and the median lag of the calls.
-- @param    slowdown_pct DOUBLE 10 | A rank that computes so much longer than the median of the
--           others, and waits no more than they do, is a straggler.
-- @param    wait_pct DOUBLE 10 | A rank that is the last in some calls and waits less than the
--           median of the others, by so much of its window (waited_for_pct), is a straggler: they
--           wait for it. A victim, late mostly because it waited for another rank itself, is none.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   load_imbalance_pct DOUBLE value pct lower | (largest - least) / mean of the compute
--           time of the ranks.
-- @column   has_stragglers BOOLEAN value - | Whether a rank is a straggler by slowdown_pct or
--           wait_pct.
-- @column   num_stragglers BIGINT value - | How many are.
-- @column   stragglers LIST value - | Those ranks, the one that is waited for most first: compute,
--           wait, slowdown, robust deviation, and why (compute, waited_for, both).
-- @column   victims LIST value - | Ranks that others wait for because they waited for another
--           themselves: rank, cause_rank, caused_wait_ms, and handed_on_pct, how much of that is
--           so.
-- @column   straggler_rank BIGINT value - | The rank that waits least in matched calls, of those
--           that are no victims, where the median of the others is longer and it comes last at
--           times; a straggler only beyond wait_pct. NULL where no call is matched.
-- @column   slowest_rank BIGINT value - | The rank that computes longest (the lowest of equals).
-- @column   fastest_rank BIGINT value - | The rank that computes shortest, of those that compute.
-- @column   sync_overhead_ms DOUBLE value ms lower | Waiting for the last rank of the matched calls
--           of a step (of all calls, where no step launched one); mean over ranks.
-- @column   compute_time_stats STRUCT value - | mean, std (n - 1), min, max, range in ms and cv in
--           percent of the compute time of the ranks.
-- @column   communication_time_stats STRUCT value - | The same of communication.
-- @column   duration_stats STRUCT value - | The same of the windows.
-- @column   step_time_cv_pct DOUBLE value pct lower | Standard deviation of step times over steps,
--           of their mean; mean over ranks. NULL below two steps.
-- @column   rank_step_time_cv_pct DOUBLE value pct lower | Standard deviation of the mean step time
--           over ranks, of their mean.
-- @column   per_rank LIST value - | Window, compute, communication, wait, times it came last,
--           robust deviation of compute, slowdown, caused_wait_ms (waits of the others in the calls
--           in which it is last), origin_wait_ms (waits of all ranks that go back to it),
--           cause_rank (of a victim), and waited_for_pct: 100 x (median wait of the others - own
--           wait) / own window, below 0 where the rank waits longer than the others do.
-- @column   num_ranks BIGINT value count | Ranks compared.
-- @column   clock_aligned BOOLEAN value - | NULL where no call is matched. Whether the offsets of
--           the clocks were taken away: see the parameter align.
-- @column   match_coverage_ratio DOUBLE value ratio | Share of the communication events that are in
--           a matched call: of the events of groups of more than one rank, or of unknown size.
-- @caveat   The windows of ranks say little: collectives end them together.
-- @source   metrics 2.I straggler_detection (defects D61, D62: the slow rank is the one that does
--           not wait; compute and not the span; a rule that works for two ranks)
WITH
    -- Whether steps launch calls at all.
    matched AS (
        SELECT trace, bool_or(step IS NOT NULL) AS in_steps
        FROM _waits
        GROUP BY trace
    ),

    waits AS (
        SELECT
            w.trace, w.rank,
            sum(w.wait_ns) AS wait_ns,
            sum(w.wait_ns) FILTER (WHERE w.step IS NOT NULL OR NOT m.in_steps) AS step_wait_ns,
            bool_or(m.in_steps) AS in_steps,
            bool_or(w.aligned) AS aligned,
            count(*) FILTER (WHERE w.is_last) AS times_last,
            count(*) AS calls
        FROM _waits AS w
        INNER JOIN matched AS m ON m.trace = w.trace
        WHERE w.aligned = coalesce($align, w.by_itself)
        GROUP BY w.trace, w.rank
    ),

    step_counts AS (
        SELECT trace, rank, count(*) AS step_count
        FROM steps
        GROUP BY trace, rank
    ),

    times AS (
        SELECT
            t.trace, t.rank, t.window_ns,
            -- A device that only gets copies is no rank of compute.
            CASE WHEN t.kernel_ns > 0 THEN t.compute_ns END AS compute_ns, t.comm_ns, w.wait_ns,
            w.step_wait_ns / CASE WHEN w.in_steps THEN coalesce(s.step_count, 1) ELSE 1 END AS step_wait_ns,
            coalesce(w.times_last, 0) AS times_last, coalesce(w.calls, 0) AS calls, w.aligned,
            c.caused_ns, c.handed_ns, c.origin_ns, c.cause_rank
        FROM _rank_times AS t
        LEFT JOIN waits AS w ON w.trace = t.trace AND w.rank = t.rank
        LEFT JOIN _wait_causes AS c
            ON c.trace = t.trace AND c.rank = t.rank AND c.aligned = w.aligned
        LEFT JOIN step_counts AS s ON s.trace = t.trace AND s.rank = t.rank
    ),

    medians AS (
        SELECT
            a.trace, a.rank,
            median(b.compute_ns) FILTER (WHERE b.rank <> a.rank) AS others_compute_ns,
            median(b.wait_ns) FILTER (WHERE b.rank <> a.rank) AS others_wait_ns,
            median(b.compute_ns) AS compute_ns
        FROM times AS a
        INNER JOIN times AS b ON b.trace = a.trace
        GROUP BY a.trace, a.rank
    ),

    deviations AS (
        SELECT t.trace, median(abs(t.compute_ns - m.compute_ns)) AS deviation_ns
        FROM times AS t
        INNER JOIN medians AS m ON m.trace = t.trace AND m.rank = t.rank
        GROUP BY t.trace
    ),

    judged AS (
        SELECT
            t.trace, t.rank, t.window_ns, t.compute_ns, t.comm_ns, t.wait_ns, t.step_wait_ns,
            t.times_last, t.calls, t.aligned, t.caused_ns, t.handed_ns, t.origin_ns, t.cause_rank,
            100.0 * (t.compute_ns - m.others_compute_ns) / nullif(m.others_compute_ns, 0) AS slowdown_pct,
            -- 0.6745: the median deviation of a normal distribution, in standard deviations.
            0.6745 * (t.compute_ns - m.compute_ns) / nullif(d.deviation_ns, 0) AS deviation,
            100.0 * (m.others_wait_ns - t.wait_ns) / nullif(t.window_ns, 0) AS waited_for_pct
        FROM times AS t
        INNER JOIN medians AS m ON m.trace = t.trace AND m.rank = t.rank
        INNER JOIN deviations AS d ON d.trace = t.trace
    ),

    reasons AS (
        SELECT
            trace, rank, window_ns, compute_ns, comm_ns, wait_ns, step_wait_ns, times_last, calls,
            aligned, caused_ns, handed_ns, origin_ns, cause_rank, slowdown_pct, deviation,
            waited_for_pct,
            -- Who waits more than the others holds up nobody.
            coalesce(slowdown_pct > $slowdown_pct AND coalesce(waited_for_pct, 0) >= 0, FALSE) AS by_compute,
            -- Who is never the last is waited for by nobody, and for a victim the others wait as
            -- they do for its cause.
            coalesce(waited_for_pct > $wait_pct AND times_last > 0 AND cause_rank IS NULL, FALSE)
                AS by_wait
        FROM judged
    ),

    lists AS (
        SELECT
            trace,
            array_agg({
                rank: rank, compute_ms: compute_ns / 1e6, wait_ms: wait_ns / 1e6,
                slowdown_pct: slowdown_pct, deviation: deviation, waited_for_pct: waited_for_pct,
                reason: CASE
                    WHEN by_compute AND by_wait THEN 'both'
                    WHEN by_compute THEN 'compute'
                    ELSE 'waited_for'
                END
            } ORDER BY waited_for_pct DESC NULLS LAST, rank) AS stragglers,
            count(*) AS num_stragglers
        FROM reasons
        WHERE by_compute OR by_wait
        GROUP BY trace
    ),

    victim_lists AS (
        SELECT
            trace,
            array_agg({
                rank: rank, cause_rank: cause_rank, caused_wait_ms: caused_ns / 1e6,
                handed_on_pct: 100 * handed_ns / caused_ns
            } ORDER BY caused_ns DESC, rank) AS victims
        FROM reasons
        WHERE cause_rank IS NOT NULL
        GROUP BY trace
    ),

    least_waits AS (
        SELECT trace, rank, waited_for_pct, times_last
        FROM reasons
        WHERE wait_ns IS NOT NULL
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY cause_rank IS NOT NULL, wait_ns, rank
        ) = 1
    ),

    slowest AS (
        SELECT trace, rank
        FROM reasons
        WHERE compute_ns > 0
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY compute_ns DESC, rank) = 1
    ),

    fastest AS (
        SELECT trace, rank
        FROM reasons
        WHERE compute_ns > 0
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY compute_ns, rank) = 1
    ),

    step_ranks AS (
        SELECT
            trace, rank, avg(time_ns) AS mean_ns,
            100.0 * stddev_samp(CAST(time_ns AS DOUBLE) ORDER BY step) / nullif(avg(time_ns), 0) AS cv_pct
        FROM _step_times
        GROUP BY trace, rank
    ),

    step_totals AS (
        SELECT
            trace,
            avg(cv_pct ORDER BY rank) AS step_time_cv_pct,
            100.0 * stddev_samp(mean_ns ORDER BY rank) / nullif(avg(mean_ns ORDER BY rank), 0)
                AS rank_step_time_cv_pct
        FROM step_ranks
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace,
            CASE WHEN max(compute_ns) > 0
                THEN 100.0 * (max(compute_ns) - min(compute_ns)) / avg(compute_ns)
            END AS load_imbalance_pct,
            avg(step_wait_ns / 1e6 ORDER BY rank) AS sync_overhead_ms,
            {
                mean: avg(compute_ns) / 1e6, std: stddev_samp(compute_ns / 1e6 ORDER BY rank),
                min: min(compute_ns) / 1e6, max: max(compute_ns) / 1e6,
                range: (max(compute_ns) - min(compute_ns)) / 1e6,
                cv_pct: 100.0 * stddev_samp(CAST(compute_ns AS DOUBLE) ORDER BY rank) / nullif(avg(compute_ns), 0)
            } AS compute_time_stats,
            {
                mean: avg(comm_ns) / 1e6, std: stddev_samp(comm_ns / 1e6 ORDER BY rank),
                min: min(comm_ns) / 1e6, max: max(comm_ns) / 1e6,
                range: (max(comm_ns) - min(comm_ns)) / 1e6,
                cv_pct: 100.0 * stddev_samp(CAST(comm_ns AS DOUBLE) ORDER BY rank) / nullif(avg(comm_ns), 0)
            } AS communication_time_stats,
            {
                mean: avg(window_ns) / 1e6, std: stddev_samp(window_ns / 1e6 ORDER BY rank),
                min: min(window_ns) / 1e6, max: max(window_ns) / 1e6,
                range: (max(window_ns) - min(window_ns)) / 1e6,
                cv_pct: 100.0 * stddev_samp(CAST(window_ns AS DOUBLE) ORDER BY rank) / nullif(avg(window_ns), 0)
            } AS duration_stats,
            array_agg({
                rank: rank, window_ms: window_ns / 1e6, compute_ms: compute_ns / 1e6,
                communication_ms: comm_ns / 1e6, wait_ms: wait_ns / 1e6, calls: calls,
                times_last: times_last, slowdown_pct: slowdown_pct, deviation: deviation,
                caused_wait_ms: caused_ns / 1e6, origin_wait_ms: origin_ns / 1e6,
                cause_rank: cause_rank, waited_for_pct: waited_for_pct
            } ORDER BY rank) AS per_rank,
            count(*) AS num_ranks,
            bool_or(aligned) AS clock_aligned
        FROM reasons
        GROUP BY trace
    )

SELECT
    t.trace, t.load_imbalance_pct,
    l.trace IS NOT NULL AS has_stragglers,
    coalesce(l.num_stragglers, 0) AS num_stragglers,
    coalesce(l.stragglers, []) AS stragglers,
    coalesce(o.victims, []) AS victims,
    CASE WHEN w.waited_for_pct > 0 AND w.times_last > 0 THEN w.rank END AS straggler_rank,
    s.rank AS slowest_rank,
    f.rank AS fastest_rank,
    t.sync_overhead_ms, t.compute_time_stats, t.communication_time_stats, t.duration_stats,
    p.step_time_cv_pct, p.rank_step_time_cv_pct, t.per_rank, t.num_ranks,
    t.clock_aligned, v.match_coverage_ratio
FROM totals AS t
LEFT JOIN lists AS l ON l.trace = t.trace
LEFT JOIN victim_lists AS o ON o.trace = t.trace
LEFT JOIN least_waits AS w ON w.trace = t.trace
LEFT JOIN slowest AS s ON s.trace = t.trace
LEFT JOIN fastest AS f ON f.trace = t.trace
LEFT JOIN step_totals AS p ON p.trace = t.trace
LEFT JOIN _match_coverage AS v ON v.trace = t.trace
ORDER BY t.trace
