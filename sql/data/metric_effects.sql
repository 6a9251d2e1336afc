-- @view     metric_effects
-- @summary  What a metric says of the time of a step: a comparison sorts and judges changes by it.
-- @column   metric VARCHAR dim - | Metric.
-- @column   basis VARCHAR value - | step (a time of one step), run (a time of the whole run),
--           device_run (such a time summed over the devices of a rank), rate (work over the time of
--           a step), share (a share of the time that is lost), busy (a share of the time that is
--           used), or measurement (of the clocks that measured, not of the run: never better or
--           worse).
-- @source   a metric that is not listed has no effect of its own that could be told in time of a
--           step
SELECT metric, basis
FROM (
    VALUES
        ('avg_step_time', 'step'),
        ('iter_time', 'step'),
        ('comm_time_per_step_s', 'step'),
        ('sync_overhead_ms', 'step'),
        ('wall_time_s', 'run'),
        ('bubble_time_s', 'run'),
        ('cpu_overhead_s', 'run'),
        ('exposed_comm_by_group', 'device_run'),
        ('idle_time_s', 'device_run'),
        ('total_compute_time_s', 'device_run'),
        ('total_comm_time_s', 'device_run'),
        ('throughput_tokens', 'rate'),
        ('throughput', 'rate'),
        ('samples_per_second', 'rate'),
        ('mfu', 'rate'),
        ('communication_fraction', 'share'),
        ('pipeline_bubble', 'share'),
        ('fsdp', 'share'),
        ('memory_transfer_overhead_pct', 'share'),
        ('gpu_utilization', 'busy'),
        ('clock_offsets', 'measurement')
) AS effects (metric, basis)
ORDER BY metric
