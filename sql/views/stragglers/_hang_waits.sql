-- @view     _hang_waits
-- @summary  Calls in which a rank may have sat and waited, with the time that such calls usually
--           take.
-- @requires _hang_calls _hang_members _hang_places
-- @caveat   Of a compared group the calls after the last matched one, beside the median of its
--           matched calls of that kind, else of all its matched calls, else of those of the trace.
--           Of a group whose other ranks are not ingested the last call of the rank, without a
--           place, beside the median of all its calls of that kind.
WITH
    kinds AS (
        SELECT trace, pg_key, collective, median(dur_ns) AS usual_ns
        FROM _hang_calls
        WHERE collective_id IS NOT NULL
        GROUP BY trace, pg_key, collective
    ),

    groups AS (
        SELECT trace, pg_key, median(dur_ns) AS usual_ns
        FROM _hang_calls
        WHERE collective_id IS NOT NULL AND pg_key <> 0
        GROUP BY trace, pg_key
    ),

    traces AS (
        SELECT trace, median(dur_ns) AS usual_ns
        FROM _hang_calls
        WHERE collective_id IS NOT NULL
        GROUP BY trace
    ),

    alone AS (
        SELECT trace, pg_key, rank, collective, dur_ns, is_last
        FROM _hang_calls AS c
        WHERE NOT EXISTS (
            SELECT 1 FROM _hang_members AS m WHERE m.trace = c.trace AND m.pg_key = c.pg_key
        )
    )

SELECT
    p.trace, p.pg_key, p.series, p.rank, p.spot, p.collective, p.dur_ns,
    coalesce(k.usual_ns, g.usual_ns, t.usual_ns) AS usual_ns
FROM _hang_places AS p
LEFT JOIN kinds AS k
    ON k.trace = p.trace AND k.pg_key = p.pg_key AND k.collective = p.collective
LEFT JOIN groups AS g ON g.trace = p.trace AND g.pg_key = p.pg_key
LEFT JOIN traces AS t ON t.trace = p.trace AND p.pg_key <> 0
WHERE p.after_matched AND p.dur_ns > 0
UNION ALL
SELECT l.trace, l.pg_key, '', l.rank, NULL, l.collective, l.dur_ns, k.usual_ns
FROM alone AS l
INNER JOIN (
    SELECT trace, pg_key, collective, median(dur_ns) AS usual_ns
    FROM alone
    GROUP BY trace, pg_key, collective
) AS k ON k.trace = l.trace AND k.pg_key = l.pg_key AND k.collective = l.collective
WHERE l.is_last AND l.dur_ns > 0
