-- @view     _group_names
-- @summary  Process groups as a report shows them: name as recorded, and ranks as text; of more
--           than 64 the first 30 and the last, as each call repeats them.
-- @requires process_groups
SELECT
    trace, pg_id, pg_name,
    CASE
        WHEN len(ranks) > 64
            THEN '[' || array_to_string(ranks[1:30], ', ') || ', ..., ' || CAST(ranks[-1] AS VARCHAR) || ']'
        ELSE CAST(ranks AS VARCHAR)
    END AS pg_ranks
FROM process_groups
