-- @view     trace_findings
-- @summary  What reading the trace found odd, what costs most first.
-- @reads    ingest_log
-- @null     nothing odd was found
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   severity VARCHAR value - | error, loss (something is missing from the tables), or info
--           (nothing is).
-- @column   code VARCHAR dim - | Stable name of the finding.
-- @column   finding_count BIGINT value count | How often, in all files.
-- @column   file_count BIGINT value count | Files with it; 0 for one of the trace as a whole.
-- @column   message VARCHAR value - | What was seen and what was done, of the file that has most of
--           it.
-- @source   the table ingest_log, over the files
SELECT
    trace, severity, code,
    TRY_CAST(sum("count") AS BIGINT) AS finding_count,
    count(DISTINCT source_id) AS file_count,
    arg_max(message, "count") AS message
FROM ingest_log
GROUP BY trace, severity, code
ORDER BY
    trace, CASE severity WHEN 'error' THEN 1 WHEN 'loss' THEN 2 ELSE 3 END,
    finding_count DESC, code
