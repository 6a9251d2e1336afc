-- @metric   wall_time_s
-- @version  1
-- @area     time
-- @summary  Elapsed time that the trace covers: first start to last end of the device events of a rank, the largest over ranks.
-- @grain    trace
-- @reads    _windows _clock_offsets
-- @value    wall_time_s
-- @alias    total_trace_time
-- @null     the trace has no slices
-- @param    align BOOLEAN false | Shift the times of each rank by its median end difference first, in case clocks differ: only trace_span_s changes.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   wall_time_s DOUBLE value s lower | Largest window over ranks.
-- @column   per_rank MAP value s | Window of each rank.
-- @column   trace_span_s DOUBLE value s | First start over ranks to last end over ranks, by their clocks as recorded; see -p align=true.
-- @column   basis VARCHAR value - | device, or host where the trace has no device events.
-- @source   metrics 2.A wall_time_s and 1.8 (defects D01 to D03: the device window, per rank)
WITH
    windows AS (
        SELECT
            w.trace, w.rank, w.start_ns, w.end_ns, w.basis,
            CASE WHEN $align THEN coalesce(o.offset_ns, 0) ELSE 0 END AS offset_ns
        FROM _windows AS w
        LEFT JOIN _clock_offsets AS o ON o.trace = w.trace AND o.rank = w.rank
    ),

    final AS (
        SELECT
            trace,
            max(end_ns - start_ns) / 1e9 AS wall_time_s,
            map(
                array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
                array_agg((end_ns - start_ns) / 1e9 ORDER BY rank)
            ) AS per_rank,
            (max(end_ns - offset_ns) - min(start_ns - offset_ns)) / 1e9 AS trace_span_s,
            min(basis) AS basis
        FROM windows
        GROUP BY trace
    )

SELECT trace, wall_time_s, per_rank, trace_span_s, basis
FROM final
ORDER BY trace
