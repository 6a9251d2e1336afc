-- @derived  _calls
-- @summary  Calls that every ingested rank of their group has, or both of a pair, numbered by their
--           first start.
-- @requires _call_places
-- @reads    _series _shifts
-- @column   series_id BIGINT value - | The series.
-- @column   call_place BIGINT value - | Place in the series, or sequence number.
-- @column   repeat BIGINT value - | Which of those with the number.
-- @column   collective_id BIGINT value - | The call.
-- @column   first_end_ns BIGINT value ns | When the first rank leaves it.
-- @column   matched_by VARCHAR value - | seq, order or shift.
-- @column   is_pair BOOLEAN value - | Whether it is of two ranks of the group.
-- @source   product 6.1
WITH
    calls AS (
        SELECT
            p.series_id, p.place + coalesce(s.shift, 0) AS call_place, p.repeat,
            count(*) AS rank_count,
            min(p.ts_ns) AS first_start_ns,
            min(p.end_ns) AS first_end_ns
        FROM _call_places AS p
        LEFT JOIN _shifts AS s ON s.series_id = p.series_id AND s.rank = p.rank
        GROUP BY p.series_id, p.place + coalesce(s.shift, 0), p.repeat
    )

SELECT
    c.series_id, c.call_place, c.repeat,
    row_number() OVER (ORDER BY s.source, c.first_start_ns, c.series_id, c.call_place, c.repeat)
        AS collective_id,
    c.first_end_ns, s.matched_by, s.is_pair
FROM calls AS c
INNER JOIN (SELECT DISTINCT source, series_id, member_count, matched_by, is_pair FROM _series) AS s
    ON s.series_id = c.series_id
-- A rank has each place once.
WHERE c.rank_count = s.member_count
