-- @derived  _threads
-- @partition rank
-- @summary  The threads of each rank that train: the main one, and those of autograd.
-- @requires _ranges
-- @reads    steps
-- @column   source VARCHAR value - | Profiler.
-- @column   rank BIGINT value - | Global rank.
-- @column   pid BIGINT value - | Process.
-- @column   tid BIGINT value - | Thread.
-- @column   has_backward BOOLEAN value - | Whether operators of autograd run on it.
-- @column   is_main BOOLEAN value - | Whether it is the main one.
-- @caveat   The main thread is the one that the steps stand on, else the one whose operators (other
--           than of autograd) take longest.
-- @source   metrics 2.A cpu_overhead_s and 2.H
WITH
    threads AS (
        SELECT
            source, rank, pid, tid,
            coalesce(bool_or(kind = 'operator' AND phase = 'backward'), FALSE) AS has_backward,
            count(*) FILTER (
                WHERE kind = 'annotation'
                    AND EXISTS (
                        SELECT 1 FROM steps AS s
                        WHERE s.source = _ranges.source AND s.rank = _ranges.rank
                            AND s.ts_ns = _ranges.ts_ns
                            AND s.ts_ns + s.dur_ns = _ranges.end_ns
                    )
            ) AS steps,
            coalesce(sum(end_ns - ts_ns) FILTER (
                WHERE kind = 'operator' AND phase IS DISTINCT FROM 'backward'
            ), 0) AS operator_ns
        FROM _ranges
        GROUP BY source, rank, pid, tid
    )

SELECT
    source, rank, pid, tid, has_backward,
    row_number() OVER (
        PARTITION BY source, rank ORDER BY steps DESC, operator_ns DESC, pid, tid
    ) = 1 AS is_main
FROM threads
