-- @view     kernels
-- @summary  Kernels: device events of class compute and comm.
-- @requires device_events
-- @null     the trace has no kernels
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   event_id BIGINT dim - | Number of the event in the trace.
-- @column   class VARCHAR value - | compute or comm.
-- @column   name VARCHAR value - | Name as recorded.
-- @column   ts_ns BIGINT value ns | Start.
-- @column   dur_ns BIGINT value ns | Duration.
-- @column   device BIGINT value - | Accelerator.
-- @column   stream BIGINT value - | Stream.
-- @column   correlation BIGINT value - | Ties the kernel to its launch.
-- @column   grid_x BIGINT value - | Thread blocks, x.
-- @column   grid_y BIGINT value - | Thread blocks, y.
-- @column   grid_z BIGINT value - | Thread blocks, z.
-- @column   block_x BIGINT value - | Threads in a block, x.
-- @column   block_y BIGINT value - | Threads in a block, y.
-- @column   block_z BIGINT value - | Threads in a block, z.
-- @column   occupancy_pct DOUBLE value pct | Occupancy as the profiler estimates it.
-- @column   args VARCHAR value - | JSON of the arguments without a column.
SELECT
    trace, rank, event_id, class, name, ts_ns, dur_ns, device, stream, correlation,
    grid_x, grid_y, grid_z, block_x, block_y, block_z, occupancy_pct, args
FROM device_events
WHERE class IN ('compute', 'comm')
