-- @view     _class_times
-- @summary  Time in which the ranks run events of a class (comm, compute): the union of a rank,
--           summed over its devices, for all ranks that have a window.
-- @requires _windows
-- @reads    _device_times
WITH
    spans AS (
        SELECT trace, rank, 'comm' AS class, TRY_CAST(sum(comm_ns) AS BIGINT) AS union_ns
        FROM _device_times
        GROUP BY trace, rank
        UNION ALL
        SELECT trace, rank, 'compute', TRY_CAST(sum(compute_ns) AS BIGINT)
        FROM _device_times
        GROUP BY trace, rank
    ),

    per_rank AS (
        SELECT w.trace, w.rank, k.class, coalesce(s.union_ns, 0) AS union_ns
        FROM _windows AS w
        CROSS JOIN (VALUES ('comm'), ('compute')) AS k (class)
        LEFT JOIN spans AS s ON s.trace = w.trace AND s.rank = w.rank AND s.class = k.class
    )

SELECT
    trace, class,
    avg(union_ns) / 1e9 AS mean_s,
    sum(union_ns) / 1e9 AS sum_s,
    map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(union_ns / 1e9 ORDER BY rank))
        AS per_rank
FROM per_rank
GROUP BY trace, class
