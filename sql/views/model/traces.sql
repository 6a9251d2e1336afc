-- @view     traces
-- @summary  The ingested traces.
-- @requires sources
-- @reads    ranks
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
            count(DISTINCT rank) AS rank_count,
            max(world_size) AS world_size,
            first(device_name ORDER BY rank, device_name) FILTER (WHERE device_name IS NOT NULL)
                AS device_name
        FROM ranks
        GROUP BY trace
    ),

    -- An execution trace beside others is no profiler; what has no rank is told by its files.
    kinds AS (
        SELECT trace, source
        FROM ranks
        UNION
        SELECT s.trace, s.source
        FROM sources AS s
        LEFT JOIN rank_rows AS r ON r.trace = s.trace
        WHERE s.source = 'bench' OR r.trace IS NULL
    ),

    kind_rows AS (
        SELECT trace, string_agg(source, '+' ORDER BY source) AS sources
        FROM kinds
        GROUP BY trace
    ),

    source_rows AS (
        SELECT trace, TRY_CAST(sum(events) AS BIGINT) AS event_count, TRY_CAST(sum(bytes) AS BIGINT) AS source_bytes
        FROM sources
        GROUP BY trace
    )

SELECT
    s.trace, k.sources, coalesce(r.rank_count, 0) AS rank_count, r.world_size, r.device_name,
    s.event_count, s.source_bytes
FROM source_rows AS s
LEFT JOIN rank_rows AS r ON r.trace = s.trace
INNER JOIN kind_rows AS k ON k.trace = s.trace
