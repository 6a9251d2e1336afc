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
-- @column   rank_no BIGINT value - | Number of its source and rank among those of these ranks.
-- @caveat   The main thread is the one that the steps stand on, else the one whose operators (other
--           than of autograd) take longest.
-- @source   metrics 2.A cpu_overhead_s and 2.H
WITH
    on_steps AS (
        SELECT r.source, r.rank, r.pid, r.tid, count(*) AS steps
        FROM _ranges AS r
        SEMI JOIN steps AS s
            ON s.source = r.source AND s.rank = r.rank
            AND s.ts_ns = r.ts_ns AND s.ts_ns + s.dur_ns = r.end_ns
        WHERE r.kind = 'annotation'
        GROUP BY r.source, r.rank, r.pid, r.tid
    ),

    threads AS (
        SELECT
            source, rank, pid, tid,
            coalesce(bool_or(kind = 'operator' AND phase = 'backward'), FALSE) AS has_backward,
            coalesce(sum(end_ns - ts_ns) FILTER (
                WHERE kind = 'operator' AND phase IS DISTINCT FROM 'backward'
            ), 0) AS operator_ns
        FROM _ranges
        GROUP BY source, rank, pid, tid
    )

SELECT
    t.source, t.rank, t.pid, t.tid, t.has_backward,
    row_number() OVER (
        PARTITION BY t.source, t.rank
        ORDER BY coalesce(o.steps, 0) DESC, t.operator_ns DESC, t.pid, t.tid
    ) = 1 AS is_main,
    dense_rank() OVER (ORDER BY t.source, t.rank) AS rank_no
FROM threads AS t
LEFT JOIN on_steps AS o
    ON o.source = t.source AND o.rank = t.rank
    AND o.pid IS NOT DISTINCT FROM t.pid AND o.tid IS NOT DISTINCT FROM t.tid
