-- @view     _match_doubts
-- @summary  Why the matched calls of a trace may be none: their shares contradict each other.
-- @materialize session
-- @requires _clock_shifts collectives
-- @caveat   A row only where there is a doubt. Of calls in which every rank needs something of
--           every other, a share that ends more than 100 us before another begins (offsets of the
--           clocks taken away where they are by themselves) is of another call; so is one that
--           states another size, but of an all-to-all.
WITH
    calls AS (
        SELECT
            c.trace, c.source, c.collective_id, any_value(c.collective) AS collective,
            max(c.ts_ns - o.shift_ns) - min(c.ts_ns + c.dur_ns - o.shift_ns) AS apart_ns,
            count(DISTINCT c.message_bytes) AS size_count
        FROM collectives AS c
        INNER JOIN _clock_shifts AS o
            ON o.trace = c.trace AND o.rank = c.rank AND o.aligned = o.by_itself
        WHERE c.collective_id IS NOT NULL
            AND c.dur_ns IS NOT NULL
            AND c.collective IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all')
        GROUP BY c.trace, c.source, c.collective_id
    )

SELECT
    trace,
    printf(
        '%d of %d matched calls contradict themselves (their ranks do not overlap in time, or state unlike sizes): the match is doubtful',
        count(*) FILTER (WHERE apart_ns > 100000 OR size_count > 1 AND collective <> 'all_to_all'), count(*)
    ) AS doubts_limit
FROM calls
GROUP BY trace
HAVING bool_or(apart_ns > 100000 OR size_count > 1 AND collective <> 'all_to_all')
