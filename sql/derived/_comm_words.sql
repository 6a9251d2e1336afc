-- @derived  _comm_words
-- @partition rank
-- @summary  Words that may name a kind of communication, and the kind: each once, not once for each
--           event.
-- @reads    comm_args device_events host_events _traced_calls
-- @column   word VARCHAR value - | The word: of an event, or the name of a kernel.
-- @column   by_kernel BOOLEAN value - | Whether it is the name of a kernel.
-- @column   kind VARCHAR value - | The kind; unknown where the word says none.
-- @source   formats_kineto sections 4 and 7
WITH
    -- Names are made words once each, not once for each event.
    communicating AS (
        SELECT DISTINCT name
        FROM host_events
        WHERE name LIKE 'nccl:%' OR name LIKE 'c10d::%' OR name LIKE 'gloo:%'
    ),

    -- Every word that may name a kind, once. A wait is no call.
    words AS (
        SELECT DISTINCT word, by_kernel
        FROM (
            SELECT collective_name AS word, false AS by_kernel
            FROM comm_args
            UNION ALL
            SELECT collective_name, false
            FROM _traced_calls
            UNION ALL
            SELECT name, true
            FROM device_events
            WHERE class = 'comm'
            UNION ALL
            SELECT
                substr(name, strpos(name, ':') + CASE WHEN name LIKE 'c10d::%' THEN 2 ELSE 1 END),
                false
            FROM communicating
        )
        WHERE word IS NOT NULL AND word <> 'wait'
    ),

    spelled AS (
        SELECT word, by_kernel, replace(replace(lower(word), '_', ''), '-', '') AS plain
        FROM words
    )

SELECT word, by_kernel,
    CASE
        WHEN plain LIKE '%reducescatter%' THEN 'reduce_scatter'
        WHEN plain LIKE '%allreduce%' OR plain LIKE '%crossdevicereduce%' THEN 'all_reduce'
        WHEN plain LIKE '%allgather%' THEN 'all_gather'
        -- The exchange of tokens between experts, by the names of its libraries.
        WHEN plain LIKE '%alltoall%' OR plain LIKE '%::ep::%' OR plain LIKE '%deepep::%'
            OR plain LIKE '%hybridep::%' OR plain LIKE '%pplx::%'
            OR by_kernel AND (
                plain LIKE '%a2adispatch%' OR plain LIKE '%a2acombine%'
                OR plain LIKE '%epdispatch%' OR plain LIKE '%epcombine%'
            )
            THEN 'all_to_all'
        WHEN plain LIKE '%broadcast%' THEN 'broadcast'
        WHEN plain LIKE '%sendrecv%' OR plain LIKE '%collectivepermute%' THEN 'send_recv'
        WHEN plain LIKE '%barrier%' THEN 'barrier'
        WHEN by_kernel AND plain LIKE 'nccl%reduce%' THEN 'reduce'
        WHEN by_kernel THEN 'unknown'
        WHEN plain LIKE '%gather%' THEN 'gather'
        WHEN plain LIKE '%scatter%' THEN 'scatter'
        WHEN plain LIKE '%reduce%' THEN 'reduce'
        WHEN plain LIKE '%send%' THEN 'send'
        WHEN plain LIKE '%recv%' THEN 'recv'
        ELSE 'unknown'
    END AS kind
FROM spelled
ORDER BY word, by_kernel
