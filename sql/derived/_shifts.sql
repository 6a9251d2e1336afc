-- @derived  _shifts
-- @summary  How many calls of a series a rank misses before its first one.
-- @requires _call_places
-- @reads    _series
-- @column   series_id BIGINT value - | The series.
-- @column   rank BIGINT value - | Global rank.
-- @column   shift BIGINT value - | Places of the reference before the rank's first call.
-- @caveat   Where ranks have different numbers of calls, each takes the shift against the reference
--           with the least spread of end-time differences: ranks leave a call together, and a
--           constant clock offset does not matter.
-- @source   product 6.1
WITH
    shifted AS (
        SELECT DISTINCT series_id, call_count, reference_rank
        FROM _series
        WHERE matched_by = 'shift'
    ),

    lined AS (
        SELECT
            p.series_id, p.rank, p.place, p.end_ns, s.reference_rank,
            s.call_count AS reference_count,
            count(*) OVER (PARTITION BY p.series_id, p.rank) AS call_count
        FROM _call_places AS p
        INNER JOIN shifted AS s ON s.series_id = p.series_id
    ),

    -- Every shift of a rank that misses calls, with the end-time difference of every pair. Of very
    -- many pairs (calls x shifts) every n-th call is looked at.
    shift_pairs AS (
        SELECT s.rank, s.series_id, s.shift, s.end_ns - r.end_ns AS difference_ns
        FROM (
            SELECT
                rank, series_id, place, end_ns, reference_rank,
                unnest(range(0, reference_count - call_count + 1)) AS shift
            FROM lined
            WHERE call_count < reference_count
                AND place % (1 + call_count * (reference_count - call_count + 1) // 2000000) = 0
        ) AS s
        INNER JOIN lined AS r
            ON r.rank = s.reference_rank
            AND r.series_id = s.series_id
            AND r.place = s.place + s.shift
    ),

    medians AS (
        SELECT rank, series_id, shift, median(difference_ns) AS median_ns
        FROM shift_pairs
        GROUP BY rank, series_id, shift
    ),

    spreads AS (
        SELECT
            p.rank, p.series_id, p.shift, m.median_ns,
            median(abs(p.difference_ns - m.median_ns)) AS spread_ns
        FROM shift_pairs AS p
        INNER JOIN medians AS m
            ON m.rank = p.rank AND m.series_id = p.series_id AND m.shift = p.shift
        GROUP BY p.rank, p.series_id, p.shift, m.median_ns
    )

SELECT series_id, rank, shift
FROM spreads
QUALIFY row_number() OVER (
    PARTITION BY series_id, rank ORDER BY spread_ns, abs(median_ns), shift DESC
) = 1
