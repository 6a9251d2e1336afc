-- @derived  process_groups
-- @summary  Process groups of the job: the rank set and the name together are the identity.
-- @reads    _stated_groups metadata
-- @source   formats_kineto section 5 (pg_config); metrics 2.C traffic_distribution (descriptions)
WITH
    configs AS (
        SELECT DISTINCT unnest(json_extract(value, '$.pg_config[*]')) AS entry
        FROM metadata
        WHERE key = 'distributedInfo' AND json_valid(value)
    ),

    stated AS (
        SELECT
            json_extract_string(entry, '$.pg_name') AS pg_name,
            json_extract_string(entry, '$.pg_desc') AS pg_desc,
            TRY_CAST(json_extract_string(entry, '$.pg_size') AS BIGINT) AS group_size,
            TRY_CAST(json_extract(entry, '$.ranks') AS BIGINT[]) AS ranks
        FROM configs
        UNION ALL
        SELECT pg_name, pg_desc, group_size, ranks
        FROM _stated_groups
    ),

    distinct_groups AS (
        SELECT
            pg_name,
            ranks,
            max(CASE WHEN pg_desc <> 'undefined' THEN pg_desc END) AS pg_desc,
            coalesce(max(len(ranks)), max(group_size)) AS group_size
        FROM stated
        WHERE pg_name IS NOT NULL
        GROUP BY pg_name, ranks
    ),

    worded AS (
        SELECT
            pg_name, ranks, pg_desc, group_size,
            string_split(replace(replace(replace(lower(pg_desc), '-', '_'), ':', '_'), ' ', '_'), '_')
                AS words
        FROM distinct_groups
    )

SELECT
    row_number() OVER (ORDER BY ranks NULLS LAST, pg_name) AS pg_id,
    pg_name,
    pg_desc,
    group_size,
    ranks,
    CASE
        WHEN (list_contains(words, 'ep') OR list_contains(words, 'expert'))
            AND NOT list_contains(words, 'data') THEN 'ep'
        WHEN list_contains(words, 'dp') OR list_contains(words, 'fsdp')
            OR list_contains(words, 'ddp') OR list_contains(words, 'hsdp')
            OR list_contains(words, 'data') OR list_contains(words, 'shard')
            OR list_contains(words, 'replicate') THEN 'dp'
        WHEN list_contains(words, 'tp') OR list_contains(words, 'tensor') THEN 'tp'
        WHEN list_contains(words, 'pp') OR list_contains(words, 'pipeline') THEN 'pp'
        WHEN list_contains(words, 'cp') OR list_contains(words, 'context') THEN 'cp'
    END AS dim
FROM worded
ORDER BY pg_id
