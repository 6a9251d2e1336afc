-- @view     _match_doubts
-- @summary  Why the matched calls of a trace may be none: their shares contradict each other.
-- @materialize session
-- @requires trace_findings
-- @reads    collectives
-- @caveat   A row only where reading the trace found such calls (calls-apart, sizes-differ).
WITH
    doubts AS (
        SELECT
            trace, sum(finding_count) FILTER (WHERE code = 'calls-apart') AS apart_count,
            sum(finding_count) FILTER (WHERE code = 'sizes-differ') AS unlike_count
        FROM trace_findings
        WHERE code IN ('calls-apart', 'sizes-differ')
        GROUP BY trace
    ),

    calls AS (
        SELECT trace, count(DISTINCT collective_id) AS call_count
        FROM collectives
        GROUP BY trace
    )

SELECT
    d.trace,
    printf(
        'the match is doubtful: of %d matched calls %s', c.call_count,
        concat_ws(
            ', ', printf('%d do not overlap in time on their ranks', d.apart_count),
            printf('%d state unlike sizes', d.unlike_count)
        )
    ) AS doubts_limit
FROM doubts AS d
INNER JOIN calls AS c ON c.trace = d.trace
