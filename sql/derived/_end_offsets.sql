-- @derived  _end_offsets
-- @partition rank
-- @summary  How long after the first rank each rank leaves its calls: as a rule, and how far from
--           that. Of kinds that no rank leaves before all have come.
-- @requires collectives
-- @reads    _calls
-- @column   source VARCHAR value - | Profiler.
-- @column   rank BIGINT value - | Global rank.
-- @column   offset_ns DOUBLE value ns | Median.
-- @column   spread_ns DOUBLE value ns | Median of the distances from it.
-- @source   product 6.1
WITH
    late AS (
        SELECT c.source, c.rank, c.ts_ns + c.dur_ns - m.first_end_ns AS late_ns
        FROM collectives AS c
        INNER JOIN _calls AS m ON m.collective_id = c.collective_id
        WHERE c.collective IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')
    ),

    offsets AS (
        SELECT source, rank, median(late_ns) AS offset_ns
        FROM late
        GROUP BY source, rank
    )

SELECT l.source, l.rank, o.offset_ns, median(abs(l.late_ns - o.offset_ns)) AS spread_ns
FROM late AS l
INNER JOIN offsets AS o ON o.source = l.source AND o.rank = l.rank
GROUP BY l.source, l.rank, o.offset_ns
