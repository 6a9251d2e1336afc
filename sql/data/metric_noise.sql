-- @view     metric_noise
-- @summary  Metrics that are means over steps, or follow from one, and the quantity of a step whose
--           spread is their noise.
-- @column   metric VARCHAR dim - | Metric.
-- @column   quantity VARCHAR value - | Quantity of _step_noise.
-- @source   relative errors of a mean and of its inverse are equal to first order
SELECT metric, quantity
FROM (
    VALUES
        ('avg_step_time', 'step_time'),
        ('iter_time', 'all_step_time'),
        ('throughput_tokens', 'step_time'),
        ('throughput', 'step_time'),
        ('samples_per_second', 'step_time'),
        ('mfu', 'step_time'),
        ('comm_time_per_step_s', 'comm')
) AS noisy (metric, quantity)
ORDER BY metric
