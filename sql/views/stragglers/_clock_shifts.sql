-- @view     _clock_shifts
-- @summary  What is taken from the times of each rank before ranks are compared: nothing, or the
--           offset of its clock; and which of the two holds where nobody says.
-- @materialize session
-- @requires ranks
-- @reads    _clock_offsets collectives
-- @caveat   Offsets are taken away by themselves (by_itself) where one of them exceeds both its
--           uncertainty and what is compared: the median over the matched calls of last start -
--           first start, offsets taken away. Two rows for each rank: aligned false and true.
WITH
    offsets AS (
        SELECT
            r.trace, r.rank, coalesce(o.offset_ns, 0) AS offset_ns,
            coalesce(abs(o.offset_ns) > o.uncertainty_ns, FALSE) AS is_sure
        FROM (SELECT DISTINCT trace, rank FROM ranks) AS r
        LEFT JOIN _clock_offsets AS o ON o.trace = r.trace AND o.rank = r.rank
    ),

    lags AS (
        SELECT c.trace, max(c.ts_ns - o.offset_ns) - min(c.ts_ns - o.offset_ns) AS lag_ns
        FROM collectives AS c
        INNER JOIN offsets AS o ON o.trace = c.trace AND o.rank = c.rank
        WHERE c.collective_id IS NOT NULL
        GROUP BY c.trace, c.collective_id
    ),

    compared AS (
        SELECT trace, median(lag_ns) AS lag_ns
        FROM lags
        GROUP BY trace
    ),

    decided AS (
        SELECT o.trace, bool_or(o.is_sure AND abs(o.offset_ns) > c.lag_ns) AS by_itself
        FROM offsets AS o
        INNER JOIN compared AS c ON c.trace = o.trace
        GROUP BY o.trace
    )

SELECT
    o.trace, o.rank, a.aligned, coalesce(d.by_itself, FALSE) AS by_itself,
    CASE WHEN a.aligned THEN o.offset_ns ELSE 0 END AS shift_ns
FROM offsets AS o
CROSS JOIN (VALUES (FALSE), (TRUE)) AS a (aligned)
LEFT JOIN decided AS d ON d.trace = o.trace
