-- @diagnosis clocks_apart
-- @version  1
-- @summary  The clocks of the ranks differ by more than the ranks do, so that times as recorded say
--           nothing of stragglers.
-- @profilers kineto nsys xla
-- @requires _clock_shifts _clock_offsets
-- @gain     none: it costs no time of a step
-- @shown    clock_offsets
-- @check    (SELECT count(DISTINCT rank) FROM _clock_shifts) > 1 | a single rank was ingested
-- @check    (SELECT count(*) FROM _clock_offsets) > 0
--           | no call that all ranks leave together is matched over the ranks
-- @caveat   Found where an offset exceeds both its uncertainty and the median lag of the calls:
--           only then do offsets matter.
-- @source   clock_offsets
WITH
    offsets AS (
        SELECT s.trace, s.rank, o.offset_ns, coalesce(o.uncertainty_ns, 0) AS uncertainty_ns
        FROM _clock_shifts AS s
        INNER JOIN _clock_offsets AS o ON o.trace = s.trace AND o.rank = s.rank
        WHERE s.aligned AND s.by_itself
    ),

    -- A rank that is nothing's reference and none's neighbour has no offset.
    counts AS (
        SELECT trace, count(DISTINCT rank) AS rank_count
        FROM _clock_shifts
        GROUP BY trace
    ),

    spans AS (
        SELECT
            trace, greatest(max(offset_ns), 0) - least(min(offset_ns), 0) AS apart_ns,
            max(uncertainty_ns) AS uncertainty_ns,
            first(rank ORDER BY abs(offset_ns) DESC, rank) AS farthest_rank
        FROM offsets
        GROUP BY trace
    ),

    -- How far those are apart that are certain; far less is not worth a word.
    sure AS (
        SELECT
            trace, rank, offset_ns,
            greatest(max(offset_ns) OVER of_trace, 0) - least(min(offset_ns) OVER of_trace, 0)
                AS apart_ns
        FROM offsets
        WHERE abs(offset_ns) > uncertainty_ns
        WINDOW of_trace AS (PARTITION BY trace)
    ),

    off AS (
        SELECT
            trace, rank, offset_ns,
            count(*) OVER (PARTITION BY trace) AS off_count,
            row_number() OVER (PARTITION BY trace ORDER BY abs(offset_ns) DESC, rank) AS place
        FROM sure
        WHERE abs(offset_ns) * 10 >= apart_ns
    ),

    lists AS (
        SELECT
            trace, any_value(off_count) AS off_count,
            string_agg(printf('%d (%+.3f ms)', rank, offset_ns / 1e6), ', ' ORDER BY place) AS texts
        FROM off
        WHERE place <= 8
        GROUP BY trace
    )

SELECT
    s.trace,
    printf(
        'the clocks of the ranks are up to %.3f ms apart (+- %.3f ms); of %d ranks %d differ from the lowest: %s%s; the offsets are taken away wherever ranks are compared',
        s.apart_ns / 1e6, s.uncertainty_ns / 1e6, c.rank_count, l.off_count, l.texts,
        CASE WHEN l.off_count > 8 THEN ', ...' ELSE '' END
    ) AS finding,
    {rank: s.farthest_rank} AS "where",
    CAST(NULL AS DOUBLE) AS time_per_step_ms,
    CAST(NULL AS DOUBLE) AS gain_ms,
    CAST([] AS VARCHAR[]) AS limits,
    'keep the clocks of the nodes together (chrony or NTP, better PTP) before the next recording; until then believe no straggler by times as recorded (-p align=false)'
        AS advice,
    'SELECT rank, reference_rank, offset_ns / 1e6 AS offset_ms, uncertainty_ns / 1e6 AS uncertainty_ms, call_count FROM _clock_offsets WHERE trace = {trace} ORDER BY rank'
        AS evidence
FROM spans AS s
INNER JOIN counts AS c ON c.trace = s.trace
INNER JOIN lists AS l ON l.trace = s.trace
