-- @view     metric_thresholds
-- @summary  From where on a leaderboard calls the value of a metric good, and from where on poor.
-- @column   metric VARCHAR dim - | Metric.
-- @column   better VARCHAR value - | Better direction: higher or lower.
-- @column   basis VARCHAR value - | What good and poor are of: value (in the unit of the metric:
--           shares and ratios, which mean the same in every job) or median (times the median of the
--           traces of the same model and hardware: times, rates and volumes, which are of the job).
-- @column   good DOUBLE value - | Good from here on.
-- @column   poor DOUBLE value - | Poor beyond it; fair between the two.
-- @source   metrics 6, thresholds of the website for shares and ratios; communication_fraction is a
--           ratio here, a percentage there
SELECT metric, better, basis, CAST(good AS DOUBLE) AS good, CAST(poor AS DOUBLE) AS poor
FROM (
    VALUES
        ('avg_step_time', 'lower', 'median', 0.95, 1.1),
        ('ttft', 'lower', 'median', 0.95, 1.1),
        ('tpot', 'lower', 'median', 0.95, 1.1),
        ('mfu', 'higher', 'value', 50.0, 25.0),
        ('sm', 'higher', 'value', 80.0, 50.0),
        ('dominant_kernel_concentration_pct', 'lower', 'value', 40.0, 70.0),
        ('moe_fraction_pct', 'lower', 'value', 20.0, 50.0),
        ('hbm_traffic_gb_per_s', 'higher', 'median', 1.05, 0.9),
        ('memory_transfer_overhead_pct', 'lower', 'value', 5.0, 20.0),
        ('communication_fraction', 'lower', 'value', 0.2, 0.5),
        ('comm_time_per_step_s', 'lower', 'median', 0.95, 1.1),
        ('busbw_allreduce_gb_per_s', 'higher', 'median', 1.05, 0.9),
        ('busbw_allgather_gb_per_s', 'higher', 'median', 1.05, 0.9),
        ('busbw_reducescatter_gb_per_s', 'higher', 'median', 1.05, 0.9),
        ('busbw_alltoall_gb_per_s', 'higher', 'median', 1.05, 0.9),
        ('p2p_link_utilization_pct', 'higher', 'value', 50.0, 20.0),
        ('overlap', 'higher', 'value', 50.0, 20.0),
        ('load_imbalance_ratio', 'lower', 'value', 1.1, 1.5),
        ('straggler_score', 'lower', 'value', 0.05, 0.2),
        ('scale_up_bw_utility_model_pct', 'higher', 'value', 10.0, 2.0),
        ('collective_vol_allreduce_gb', 'lower', 'median', 0.95, 1.1),
        ('collective_vol_allgather_gb', 'lower', 'median', 0.95, 1.1),
        ('collective_vol_reducescatter_gb', 'lower', 'median', 0.95, 1.1),
        ('collective_vol_alltoall_gb', 'lower', 'median', 0.95, 1.1),
        ('collective_vol_total_gb', 'lower', 'median', 0.95, 1.1)
) AS thresholds (metric, better, basis, good, poor)
ORDER BY metric
