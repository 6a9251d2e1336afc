-- @derived  _rank_lists
-- @partition rank
-- @summary  Lists of ranks as events and headers state them, each once.
-- @reads    comm_args metadata
-- @column   stated VARCHAR value - | The list as stated: JSON.
-- @column   ranks_key BIGINT value - | What the list is known by: events name it in place of the
--           list, which may be as long as the job is wide.
-- @column   ranks BIGINT[] value - | The ranks.
-- @source   formats_kineto sections 4 and 5
WITH
    configs AS (
        SELECT unnest(json_extract(value, '$.pg_config[*]')) AS entry
        FROM metadata
        WHERE key = 'distributedInfo' AND json_valid(value)
    ),

    texts AS (
        SELECT DISTINCT pg_ranks AS stated
        FROM comm_args
        UNION
        SELECT json_extract(entry, '$.ranks')::VARCHAR
        FROM configs
    ),

    lists AS (
        SELECT stated, TRY_CAST(CASE WHEN json_valid(stated) THEN stated END::JSON AS BIGINT[]) AS ranks
        FROM texts
    )

SELECT stated, CAST(md5_number_lower(stated) >> 1 AS BIGINT) AS ranks_key, ranks
FROM lists
WHERE ranks IS NOT NULL
ORDER BY stated
