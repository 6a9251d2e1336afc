-- @metric   wall_time_s
-- @version  1
-- @area     speed
-- @summary  Elapsed time that the trace covers: first start to last end of the device events of a
--           rank, the largest over ranks.
-- @grain    trace
-- @reads    _windows _clock_shifts
-- @value    wall_time_s
-- @alias    total_trace_time
-- @null     the trace has no slices
-- @warn     clock_aligned
--           | the clocks of the ranks differ: their offsets (clock_offsets) are taken away from
--           trace_span_s; -p align=false compares the clocks as recorded
-- @param    align BOOLEAN NULL | Take the offsets of the clocks (clock_offsets) from the times of
--           the ranks before they are compared: true or false; without it where an offset exceeds
--           both its uncertainty and the median lag of the calls: only trace_span_s changes.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   wall_time_s DOUBLE value s lower | Largest window over ranks.
-- @column   per_rank MAP value s | Window of each rank.
-- @column   trace_span_s DOUBLE value s | First start over ranks to last end over ranks; see the
--           parameter align.
-- @column   clock_aligned BOOLEAN value - | Whether the offsets of the clocks were taken away: see
--           the parameter align.
-- @column   basis VARCHAR value - | device, or host where the trace has no device events.
-- @source   metrics 2.A wall_time_s and 1.8 (defects D01 to D03: the device window, per rank)
WITH
    windows AS (
        SELECT
            w.trace, w.rank, w.start_ns, w.end_ns, w.basis,
            o.aligned, o.shift_ns
        FROM _windows AS w
        INNER JOIN _clock_shifts AS o ON o.trace = w.trace AND o.rank = w.rank
        WHERE o.aligned = coalesce($align, o.by_itself)
    )

SELECT
    trace,
    max(end_ns - start_ns) / 1e9 AS wall_time_s,
    map(
        array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
        array_agg((end_ns - start_ns) / 1e9 ORDER BY rank)
    ) AS per_rank,
    (max(end_ns - shift_ns) - min(start_ns - shift_ns)) / 1e9 AS trace_span_s,
    bool_or(aligned) AS clock_aligned,
    min(basis) AS basis
FROM windows
GROUP BY trace
ORDER BY trace
