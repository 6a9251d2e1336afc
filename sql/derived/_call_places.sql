-- @derived  _call_places
-- @partition rank
-- @summary  The place of each communication event among those of its rank and series.
-- @requires _collective_events
-- @reads    _series
-- @column   event_id BIGINT dim - | The event.
-- @column   rank BIGINT value - | Global rank.
-- @column   series_id BIGINT value - | The series.
-- @column   place BIGINT value - | Its sequence number, else how many are before it.
-- @column   repeat BIGINT value - | How many of its sequence number are before it; else 0.
-- @column   ts_ns BIGINT value ns | Start.
-- @column   end_ns BIGINT value ns | End.
-- @source   product 6.1
WITH
    events AS (
        SELECT
            c.event_id, c.rank, c.ts_ns, c.ts_ns + c.dur_ns AS end_ns, s.series_id,
            CASE WHEN s.matched_by = 'seq' THEN c.seq END AS seq
        FROM _collective_events AS c
        INNER JOIN _series AS s
            ON s.source = c.source AND s.collective = c.collective
            AND s.operation IS NOT DISTINCT FROM c.operation
            AND s.coll_source IS NOT DISTINCT FROM c.coll_source
            AND s.pg_name IS NOT DISTINCT FROM c.pg_name
            AND s.ranks_key IS NOT DISTINCT FROM c.ranks_key
            AND s.stated_size IS NOT DISTINCT FROM c.stated_size
        WHERE c.dur_ns IS NOT NULL
    ),

    lined AS (
        SELECT
            event_id, rank, ts_ns, end_ns, series_id, seq,
            row_number() OVER (PARTITION BY rank, series_id, seq ORDER BY ts_ns, event_id) - 1 AS before
        FROM events
    )

SELECT
    event_id, rank, series_id,
    coalesce(seq, before) AS place,
    CASE WHEN seq IS NULL THEN 0 ELSE before END AS repeat,
    ts_ns, end_ns
FROM lined
ORDER BY rank, ts_ns, event_id
