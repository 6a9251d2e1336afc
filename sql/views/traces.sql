-- @view     traces
-- @summary  The ingested traces.
-- @requires ranks sources
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   sources VARCHAR value - | Profilers, joined by +.
-- @column   rank_count BIGINT value count | Ranks ingested.
-- @column   world_size BIGINT value - | Ranks of the job, as stated.
-- @column   device_name VARCHAR value - | Accelerator of the lowest rank that names one.
-- @column   event_count BIGINT value count | Events.
-- @column   source_bytes BIGINT value bytes | Bytes of the files as they lie on disk.
WITH
    rank_rows AS (
        SELECT
            trace,
            string_agg(DISTINCT source, '+' ORDER BY source) AS sources,
            count(DISTINCT rank) AS rank_count,
            max(world_size) AS world_size,
            min(device_name) AS device_name
        FROM ranks
        GROUP BY trace
    ),

    source_rows AS (
        SELECT trace, CAST(sum(events) AS BIGINT) AS event_count, CAST(sum(bytes) AS BIGINT) AS source_bytes
        FROM sources
        GROUP BY trace
    )

SELECT
    r.trace, r.sources, r.rank_count, r.world_size, r.device_name, s.event_count, s.source_bytes
FROM rank_rows AS r
INNER JOIN source_rows AS s ON s.trace = r.trace
