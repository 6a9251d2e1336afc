-- @metric   straggler_by_rank
-- @version  1
-- @area     stragglers
-- @summary  Which rank comes last in how many of the matched calls, how long each rank waits, and
--           how long the others wait for it.
-- @grain    trace
-- @requires collectives
-- @reads    _waits _wait_causes _match_coverage ranks
-- @value    last_pct
-- @answer   'rank ' || straggler_rank || ' is last most often' || CASE WHEN len(victims) > 0 THEN
--           ', leaving victims out' ELSE '' END
-- @coverage match_coverage_ratio | which events of the ranks are one call is
-- @warn     clock_aligned
--           | the clocks of the ranks differ: their offsets (clock_offsets) are taken away; -p
--           align=false compares the clocks as recorded
-- @null     no call was found on every ingested rank of its group
-- @check    (SELECT count(DISTINCT rank) FROM ranks) > 1 | the trace has fewer than two ranks
-- @param    align BOOLEAN NULL | Take the offsets of the clocks (clock_offsets) from the times of
--           the ranks before they are compared: true or false; without it where an offset exceeds
--           both its uncertainty and the median lag of the calls.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   last_pct DOUBLE value pct lower | Of the matched calls, the share in which
--           straggler_rank is the last to start.
-- @column   straggler_rank BIGINT value - | The rank that is last most often (the lowest of
--           equals), of those that are no victims: a victim is late mostly because it waited for
--           another itself.
-- @column   calls BIGINT value calls | Matched calls: found on every ingested rank of their group,
--           two at least.
-- @column   tied_calls BIGINT value calls | Calls among them in which several ranks are last at the
--           same nanosecond; the lowest of those ranks counts as the last.
-- @column   origin_pct DOUBLE value pct | Of all waiting, what goes back to straggler_rank, over
--           however many ranks.
-- @column   victims LIST value - | Ranks that are late mostly because they waited for another:
--           rank, cause_rank, caused_wait_us, and handed_on_pct, how much of that is so.
-- @column   num_ranks BIGINT value count | Ranks that are in a matched call.
-- @column   by_rank LIST value - | Of each rank, the one that waits least in total first: calls
--           that it is in, total, mean and 95th percentile (interpolated) of its waits, how often
--           it is last and first, last_pct of its calls, caused_wait_us (waits of the other ranks
--           in the calls in which it is last), origin_wait_us (waits of all ranks that go back to
--           it), cause_rank (of a victim, for which rank it waits), comm_us (its time in these
--           calls, waits included).
-- @column   by_kind LIST value - | Of each kind of call, the most calls first: calls, total and
--           mean wait of a rank, straggler_rank (last most often) and last_pct (in what share of
--           these calls).
-- @column   clock_aligned BOOLEAN value - | Whether the offsets of the clocks were taken away: see
--           the parameter align.
-- @column   match_coverage_ratio DOUBLE value ratio | Share of the communication events that are in
--           a matched call: of the events of groups of more than one rank, or of unknown size.
-- @caveat   Ranks of different groups are in different calls: compare ranks of one group. That a
--           rank is a victim is inferred from times: it waited longer than those that wait for it,
--           since they last met.
-- @source   metrics 7.2 straggler_summary and 2.I (defects D60, D61: the rank that waits least is
--           waited for); a wait is last start - own start, not longer than the own event; victims
--           and origins: Böhme and others 2010, Identifying the root causes of wait states
WITH
    shares AS (
        SELECT
            trace, source, collective_id, collective, rank, dur_ns, aligned, wait_ns, late_ns,
            is_last, is_first
        FROM _waits
        WHERE aligned = coalesce($align, by_itself)
    ),

    causes AS (
        SELECT trace, rank, caused_ns, handed_ns, origin_ns, cause_rank
        FROM _wait_causes
        WHERE aligned = coalesce($align, by_itself)
    ),

    calls AS (
        SELECT
            trace, source, collective_id, collective,
            max(rank) FILTER (WHERE is_last) AS last_rank,
            sum(wait_ns) AS wait_ns,
            count(*) AS rank_count,
            count(*) FILTER (WHERE late_ns = 0) > 1 AS is_tied
        FROM shares
        GROUP BY trace, source, collective_id, collective
    ),

    per_rank AS (
        SELECT
            trace, rank,
            count(*) AS calls,
            sum(wait_ns) / 1e3 AS total_wait_us,
            avg(wait_ns) / 1e3 AS mean_wait_us,
            quantile_cont(wait_ns, 0.95) / 1e3 AS p95_wait_us,
            count(*) FILTER (WHERE is_last) AS times_last,
            count(*) FILTER (WHERE is_first) AS times_first,
            100.0 * count(*) FILTER (WHERE is_last) / count(*) AS last_pct,
            sum(dur_ns) / 1e3 AS comm_us
        FROM shares
        GROUP BY trace, rank
    ),

    rank_lists AS (
        SELECT
            p.trace,
            count(*) AS num_ranks,
            array_agg({
                rank: p.rank, calls: p.calls, total_wait_us: p.total_wait_us,
                mean_wait_us: p.mean_wait_us, p95_wait_us: p.p95_wait_us,
                times_last: p.times_last, times_first: p.times_first, last_pct: p.last_pct,
                caused_wait_us: c.caused_ns / 1e3, origin_wait_us: c.origin_ns / 1e3,
                cause_rank: c.cause_rank, comm_us: p.comm_us
            } ORDER BY p.total_wait_us, p.rank) AS by_rank
        FROM per_rank AS p
        LEFT JOIN causes AS c ON c.trace = p.trace AND c.rank = p.rank
        GROUP BY p.trace
    ),

    kind_ranks AS (
        SELECT trace, collective, last_rank, count(*) AS times_last
        FROM calls
        GROUP BY trace, collective, last_rank
        QUALIFY row_number() OVER (
            PARTITION BY trace, collective ORDER BY count(*) DESC, last_rank
        ) = 1
    ),

    kinds AS (
        SELECT
            trace, collective, count(*) AS calls, sum(wait_ns) / 1e3 AS total_wait_us,
            sum(wait_ns) / 1e3 / sum(rank_count) AS mean_wait_us
        FROM calls
        GROUP BY trace, collective
    ),

    kind_lists AS (
        SELECT
            k.trace,
            array_agg({
                collective: k.collective, calls: k.calls, total_wait_us: k.total_wait_us,
                mean_wait_us: k.mean_wait_us, straggler_rank: r.last_rank,
                last_pct: 100.0 * r.times_last / k.calls
            } ORDER BY k.calls DESC, k.collective) AS by_kind
        FROM kinds AS k
        INNER JOIN kind_ranks AS r ON r.trace = k.trace AND r.collective = k.collective
        GROUP BY k.trace
    ),

    totals AS (
        SELECT
            trace, count(*) AS calls, count(*) FILTER (WHERE is_tied) AS tied_calls,
            sum(wait_ns) AS wait_ns
        FROM calls
        GROUP BY trace
    ),

    stragglers AS (
        SELECT p.trace, p.rank, p.times_last, c.origin_ns
        FROM per_rank AS p
        INNER JOIN causes AS c ON c.trace = p.trace AND c.rank = p.rank
        QUALIFY row_number() OVER (
            PARTITION BY p.trace
            ORDER BY c.cause_rank IS NOT NULL, p.times_last DESC, p.rank
        ) = 1
    ),

    victim_lists AS (
        SELECT
            trace,
            array_agg({
                rank: rank, cause_rank: cause_rank, caused_wait_us: caused_ns / 1e3,
                handed_on_pct: 100 * handed_ns / caused_ns
            } ORDER BY caused_ns DESC, rank) AS victims
        FROM causes
        WHERE cause_rank IS NOT NULL
        GROUP BY trace
    ),

    clocks AS (
        SELECT trace, bool_or(aligned) AS clock_aligned
        FROM shares
        GROUP BY trace
    )

SELECT
    t.trace,
    100.0 * s.times_last / t.calls AS last_pct,
    s.rank AS straggler_rank,
    t.calls, t.tied_calls,
    100.0 * s.origin_ns / nullif(t.wait_ns, 0) AS origin_pct,
    coalesce(o.victims, []) AS victims, l.num_ranks, l.by_rank, k.by_kind,
    a.clock_aligned, v.match_coverage_ratio
FROM totals AS t
INNER JOIN stragglers AS s ON s.trace = t.trace
INNER JOIN rank_lists AS l ON l.trace = t.trace
INNER JOIN kind_lists AS k ON k.trace = t.trace
INNER JOIN clocks AS a ON a.trace = t.trace
LEFT JOIN victim_lists AS o ON o.trace = t.trace
LEFT JOIN _match_coverage AS v ON v.trace = t.trace
ORDER BY t.trace
