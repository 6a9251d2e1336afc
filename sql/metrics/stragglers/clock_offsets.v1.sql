-- @metric   clock_offsets
-- @version  1
-- @area     stragglers
-- @summary  How far the clocks of the ranks are apart, by the ends of calls that all ranks leave
--           together, and how sure that is.
-- @grain    trace
-- @requires collectives
-- @reads    _clock_offsets _clock_shifts ranks
-- @value    max_offset_us
-- @answer   CASE WHEN ranks_apart_count = 0 THEN 'no offset is larger than its uncertainty' ELSE
--           'rank ' || max_offset_rank || ' is furthest off' END
-- @null     no call that all ranks leave together (all_reduce, all_gather, reduce_scatter,
--           all_to_all, barrier) was found on every ingested rank of its group
-- @check    (SELECT count(DISTINCT rank) FROM ranks) > 1 | the trace has fewer than two ranks
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   max_offset_us DOUBLE value us lower | Largest offset of a rank, without its sign.
-- @column   max_offset_rank BIGINT value - | The rank that has it (the lowest of equals).
-- @column   max_uncertainty_us DOUBLE value us lower | Largest uncertainty of a rank; NULL where no
--           offset rests on two calls.
-- @column   ranks_apart_count BIGINT value count | Ranks whose offset is larger than its
--           uncertainty.
-- @column   taken_away BOOLEAN value - | Whether metrics and views that compare ranks take the
--           offsets away by themselves: one exceeds both its uncertainty and the median over the
--           matched calls of last start - first start, offsets taken away.
-- @column   by_rank LIST value - | Of each rank: offset_us (whole ns; positive: its clock is
--           ahead), reference_rank (the lowest rank of the calls compared, whose own offset is
--           added), spread_us (median deviation of the end differences), calls, uncertainty_us
--           (standard error of the median; NULL for one call), beyond_uncertainty. The lowest ranks
--           are references and have no row.
-- @caveat   An offset below its uncertainty is no offset. Ranks of one host have one clock: what is
--           found there is how unevenly they leave calls, and nothing to be taken away. Where a
--           rank leaves calls later in all of them (a slower link), that is in its offset too.
-- @source   product 6.2; uncertainty = 1.2533 x 1.4826 x MAD / sqrt(calls): standard error of the
--           median of a large normal sample, sigma by the median deviation (Rousseeuw and Croux
--           1993, Alternatives to the Median Absolute Deviation, JASA 88); where the reference has
--           an offset of its own, the root of the sum of both squares
WITH
    offsets AS (
        SELECT
            trace, rank, reference_rank, offset_ns, spread_ns, call_count, uncertainty_ns,
            abs(offset_ns) > uncertainty_ns AS is_beyond
        FROM _clock_offsets
    ),

    furthest AS (
        SELECT trace, rank
        FROM offsets
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY abs(offset_ns) DESC, rank) = 1
    ),

    totals AS (
        SELECT
            trace,
            max(abs(offset_ns)) / 1e3 AS max_offset_us,
            max(uncertainty_ns) / 1e3 AS max_uncertainty_us,
            count(*) FILTER (WHERE is_beyond) AS ranks_apart_count,
            array_agg({
                rank: rank, reference_rank: reference_rank, offset_us: offset_ns / 1e3,
                spread_us: spread_ns / 1e3, calls: call_count,
                uncertainty_us: uncertainty_ns / 1e3, beyond_uncertainty: is_beyond
            } ORDER BY rank) AS by_rank
        FROM offsets
        GROUP BY trace
    ),

    clocks AS (
        SELECT trace, bool_or(by_itself) AS by_itself
        FROM _clock_shifts
        GROUP BY trace
    )

SELECT
    t.trace, t.max_offset_us, f.rank AS max_offset_rank, t.max_uncertainty_us,
    t.ranks_apart_count, c.by_itself AS taken_away, t.by_rank
FROM totals AS t
INNER JOIN furthest AS f ON f.trace = t.trace
INNER JOIN clocks AS c ON c.trace = t.trace
ORDER BY t.trace
