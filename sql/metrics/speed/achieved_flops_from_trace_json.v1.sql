-- @metric   achieved_flops_from_trace_json
-- @version  1
-- @area     speed
-- @summary  Floating-point operations of all ranks per second of the trace.
-- @grain    trace
-- @profilers xla
-- @requires device_events
-- @reads    _device_times _trace_flops _device_counts
-- @value    achieved_flops_from_trace_json
-- @check    (SELECT count(*) FROM _device_counts WHERE flops_events > 0) > 0
--           | no device event states floating-point operations (XLA traces of TPUs do)
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   achieved_flops_from_trace_json DOUBLE value flops_per_s higher | Sum over the device
--           events of all ranks / the largest window over ranks (that of wall_time_s).
-- @column   per_busy DOUBLE value flops_per_s | The same sum / the busy time of all devices
--           together: the rate of one busy device.
-- @column   total_model_flops DOUBLE value flops | The sum.
-- @column   wall_time_s DOUBLE value s | The window.
-- @column   busy_time_s DOUBLE value s | Union of all work of each device, summed over devices and
--           ranks.
-- @caveat   The tool that set the name divides by the durations of the operations that state any,
--           added up: a rate of single operations, which idle time and concurrency do not move.
-- @source   metrics 2.F achieved_flops (defect D15)
WITH
    busy AS (
        SELECT trace, sum(busy_ns) / 1e9 AS busy_time_s
        FROM _device_times
        WHERE device IS NOT NULL
        GROUP BY trace
    )

SELECT
    t.trace,
    t.flops / nullif(t.wall_time_s, 0) AS achieved_flops_from_trace_json,
    t.flops / nullif(b.busy_time_s, 0) AS per_busy,
    t.flops AS total_model_flops,
    t.wall_time_s,
    b.busy_time_s
FROM _trace_flops AS t
LEFT JOIN busy AS b ON b.trace = t.trace
ORDER BY t.trace
