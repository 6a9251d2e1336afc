-- @view     cuda_gpu_mem_size_sum
-- @summary  Bytes of copies and sets of memory on the devices of all ranks by operation: how many,
--           how large, and how they spread.
-- @requires device_events copies
-- @null     no copy or set of memory states its bytes
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   operation VARCHAR dim - | memcpy with its direction, or memset.
-- @column   total_bytes BIGINT value bytes | Sum of the sizes.
-- @column   operation_count BIGINT value count | Operations that state their bytes.
-- @column   mean_bytes DOUBLE value bytes | Mean.
-- @column   median_bytes DOUBLE value bytes | Median; of an even number the mean of the two in the
--           middle.
-- @column   min_bytes BIGINT value bytes | Least.
-- @column   max_bytes BIGINT value bytes | Greatest.
-- @column   stddev_bytes DOUBLE value bytes | Standard deviation of a sample (divided by n - 1); 0
--           of one alone.
-- @heading  total_bytes | Total (B)
-- @heading  operation_count | Count
-- @heading  mean_bytes | Avg (B)
-- @heading  median_bytes | Med (B)
-- @heading  min_bytes | Min (B)
-- @heading  max_bytes | Max (B)
-- @heading  stddev_bytes | StdDev (B)
-- @heading  operation | Operation
-- @source   nsys stats cuda_gpu_mem_size_sum of Nsight Systems; StdDev and Med are those of its
--           SQLite functions
WITH
    timed AS (
        SELECT
            c.trace,
            'memcpy' || coalesce(
                CASE c.direction
                    WHEN 'h2d' THEN ' HtoD'
                    WHEN 'd2h' THEN ' DtoH'
                    WHEN 'd2d' THEN ' DtoD'
                    WHEN 'p2p' THEN ' PtoP'
                    WHEN 'h2h' THEN ' HtoH'
                END, ''
            ) AS operation,
            c.bytes
        FROM copies AS c
        WHERE c.bytes IS NOT NULL
        UNION ALL
        SELECT trace, 'memset' AS operation, bytes
        FROM device_events
        WHERE class = 'set' AND bytes >= 0
    )

SELECT
    trace, operation,
    TRY_CAST(sum(bytes) AS BIGINT) AS total_bytes,
    count(*) AS operation_count,
    avg(bytes) AS mean_bytes,
    median(bytes) AS median_bytes,
    min(bytes) AS min_bytes,
    max(bytes) AS max_bytes,
    coalesce(stddev_samp(bytes ORDER BY bytes), 0) AS stddev_bytes
FROM timed
GROUP BY trace, operation
ORDER BY trace, total_bytes DESC, operation
