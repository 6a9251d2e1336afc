-- @derived  _findings
-- @summary  What the derived tables found odd; added to ingest_log.
-- @reads    collectives
-- @caveat   Spans are compared after shifting each rank by its median end difference, so that a constant clock offset is no finding.
WITH
    shares AS (
        SELECT source, collective_id, rank, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns
        FROM collectives
        WHERE collective_id IS NOT NULL
    ),

    middles AS (
        SELECT collective_id, min(end_ns) AS first_end_ns
        FROM shares
        GROUP BY collective_id
    ),

    offsets AS (
        SELECT s.source, s.rank, CAST(median(s.end_ns - m.first_end_ns) AS BIGINT) AS offset_ns
        FROM shares AS s
        INNER JOIN middles AS m ON m.collective_id = s.collective_id
        GROUP BY s.source, s.rank
    ),

    aligned AS (
        SELECT
            s.collective_id,
            min(s.end_ns - o.offset_ns) AS first_end_ns,
            max(s.start_ns - o.offset_ns) AS last_start_ns
        FROM shares AS s
        INNER JOIN offsets AS o ON o.source = s.source AND o.rank = s.rank
        GROUP BY s.collective_id
    ),

    final AS (
        SELECT count(*) AS finding_count
        FROM aligned
        WHERE first_end_ns < last_start_ns
    )

SELECT
    CAST(NULL AS BIGINT) AS source_id,
    'calls-apart' AS code,
    'info' AS severity,
    finding_count AS "count",
    CAST(NULL AS BIGINT) AS first_offset,
    'calls whose spans on the ranks do not overlap, clock offsets removed: perhaps matched wrongly, or ranks leave them at different times'
        AS message
FROM final
WHERE finding_count > 0
