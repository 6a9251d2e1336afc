-- @metric   wall_time_s
-- @version  1
-- @area     time
-- @summary  Elapsed time that the trace covers: first start to last end of the device events of a rank, the largest over ranks.
-- @grain    trace
-- @reads    _windows
-- @value    wall_time_s
-- @alias    total_trace_time
-- @null     the trace has no slices
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   wall_time_s DOUBLE value s lower | Largest window over ranks.
-- @column   per_rank MAP value s | Window of each rank.
-- @column   trace_span_s DOUBLE value s | First start over ranks to last end over ranks, by their clocks.
-- @column   basis VARCHAR value - | device, or host where the trace has no device events.
-- @source   metrics 2.A wall_time_s and 1.8 (defects D01 to D03: the device window, per rank)
WITH
    windows AS (
        SELECT trace, rank, start_ns, end_ns, basis
        FROM _windows
    ),

    final AS (
        SELECT
            trace,
            max(end_ns - start_ns) / 1e9 AS wall_time_s,
            map(
                array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
                array_agg((end_ns - start_ns) / 1e9 ORDER BY rank)
            ) AS per_rank,
            (max(end_ns) - min(start_ns)) / 1e9 AS trace_span_s,
            min(basis) AS basis
        FROM windows
        GROUP BY trace
    )

SELECT trace, wall_time_s, per_rank, trace_span_s, basis
FROM final
ORDER BY trace
