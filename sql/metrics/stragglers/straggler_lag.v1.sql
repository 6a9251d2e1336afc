-- @metric   straggler_lag
-- @version  1
-- @area     stragglers
-- @summary  Lag of the last rank to enter a collective call: last start - first start, over the
--           calls that every ingested rank of a group has.
-- @grain    trace
-- @requires collectives
-- @reads    _clock_offsets _clock_shifts _match_coverage ranks steps
-- @value    mean_lag_us
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
-- @column   mean_lag_us DOUBLE value us lower | Mean over the calls.
-- @column   p50_lag_us DOUBLE value us | Median, interpolated.
-- @column   p95_lag_us DOUBLE value us | 95th percentile, interpolated.
-- @column   max_lag_us DOUBLE value us | Largest.
-- @column   min_lag_us DOUBLE value us | Smallest.
-- @column   normalized_lag DOUBLE value ratio | Mean lag / mean duration of the steps; NULL without
--           steps.
-- @column   num_collectives BIGINT value calls | Calls compared.
-- @column   num_ranks BIGINT value count | Ranks ingested.
-- @column   group_ranks_missing BIGINT value count | Ranks of the job that were not ingested; NULL
--           where the trace does not say how many there are.
-- @column   last_rank_counts MAP value calls | How often each rank started last.
-- @column   clock_aligned BOOLEAN value - | Whether the offsets of the clocks were taken away: see
--           the parameter align.
-- @column   alignment_spread_us DOUBLE value us | Median deviation of the end differences that the
--           shifts rest on, largest over ranks; NULL without shifts.
-- @column   match_coverage_ratio DOUBLE value ratio | Share of the communication events that are in
--           a matched call: of the events of groups of more than one rank, or of unknown size.
-- @source   metrics 2.I straggler_lag_us (defect D60: calls matched by group and order, not by
--           position in a mixed list)
WITH
    shares AS (
        SELECT trace, collective_id, rank, ts_ns AS start_ns
        FROM collectives
        WHERE collective_id IS NOT NULL
    ),

    starts AS (
        SELECT
            s.trace,
            s.collective_id,
            s.rank,
            s.start_ns - o.shift_ns AS start_ns,
            o.aligned
        FROM shares AS s
        INNER JOIN _clock_shifts AS o ON o.trace = s.trace AND o.rank = s.rank
        WHERE o.aligned = coalesce($align, o.by_itself)
    ),

    lags AS (
        SELECT
            trace, collective_id, max(start_ns) - min(start_ns) AS lag_ns,
            bool_or(aligned) AS aligned
        FROM starts
        GROUP BY trace, collective_id
    ),

    last_ranks AS (
        SELECT trace, collective_id, rank
        FROM starts
        QUALIFY row_number() OVER (
            PARTITION BY trace, collective_id ORDER BY start_ns DESC, rank
        ) = 1
    ),

    last_counts AS (
        SELECT trace, rank, count(*) AS call_count
        FROM last_ranks
        GROUP BY trace, rank
    ),

    last_maps AS (
        SELECT
            trace,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(call_count ORDER BY rank))
                AS last_rank_counts
        FROM last_counts
        GROUP BY trace
    ),

    step_means AS (
        SELECT trace, rank, avg(dur_ns) / 1e3 AS mean_us
        FROM steps
        GROUP BY trace, rank
    ),

    step_totals AS (
        SELECT trace, avg(mean_us ORDER BY rank) AS step_us
        FROM step_means
        GROUP BY trace
    ),

    rank_totals AS (
        SELECT
            trace,
            count(DISTINCT rank) AS num_ranks,
            max(world_size) - count(DISTINCT rank) AS group_ranks_missing
        FROM ranks
        GROUP BY trace
    ),

    spread_totals AS (
        SELECT trace, max(spread_ns) / 1e3 AS spread_us
        FROM _clock_offsets
        GROUP BY trace
    ),

    lag_totals AS (
        SELECT
            trace,
            avg(lag_ns) / 1e3 AS mean_lag_us,
            quantile_cont(lag_ns, 0.5) / 1e3 AS p50_lag_us,
            quantile_cont(lag_ns, 0.95) / 1e3 AS p95_lag_us,
            max(lag_ns) / 1e3 AS max_lag_us,
            min(lag_ns) / 1e3 AS min_lag_us,
            count(*) AS num_collectives,
            bool_or(aligned) AS clock_aligned
        FROM lags
        GROUP BY trace
    )

SELECT
    l.trace, l.mean_lag_us, l.p50_lag_us, l.p95_lag_us, l.max_lag_us, l.min_lag_us,
    l.mean_lag_us / nullif(s.step_us, 0) AS normalized_lag,
    l.num_collectives, r.num_ranks, r.group_ranks_missing, m.last_rank_counts,
    l.clock_aligned,
    CASE WHEN l.clock_aligned THEN p.spread_us END AS alignment_spread_us,
    v.match_coverage_ratio
FROM lag_totals AS l
INNER JOIN rank_totals AS r ON r.trace = l.trace
INNER JOIN last_maps AS m ON m.trace = l.trace
LEFT JOIN step_totals AS s ON s.trace = l.trace
LEFT JOIN spread_totals AS p ON p.trace = l.trace
LEFT JOIN _match_coverage AS v ON v.trace = l.trace
ORDER BY l.trace
