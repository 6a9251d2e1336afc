-- @view     metric_thresholds
-- @summary  From where on a leaderboard calls the value of a metric good, and from where on poor.
-- @column   metric VARCHAR dim - | Metric.
-- @column   better VARCHAR value - | Better direction: higher or lower.
-- @column   good DOUBLE value - | Good from here on, in the unit of the metric.
-- @column   poor DOUBLE value - | Poor beyond it; fair between the two.
-- @source   metrics 6, thresholds of the website; communication_fraction is a ratio here, a percentage there
SELECT metric, better, CAST(good AS DOUBLE) AS good, CAST(poor AS DOUBLE) AS poor
FROM (
    VALUES
        ('avg_step_time', 'lower', 5.0, 10.0),
        ('ttft', 'lower', 0.2, 1.0),
        ('tpot', 'lower', 0.05, 0.2),
        ('mfu', 'higher', 50.0, 25.0),
        ('sm', 'higher', 80.0, 50.0),
        ('dominant_kernel_concentration_pct', 'lower', 40.0, 70.0),
        ('moe_fraction_pct', 'lower', 20.0, 50.0),
        ('hbm_traffic_gb_per_s', 'higher', 1000.0, 500.0),
        ('memory_transfer_overhead_pct', 'lower', 5.0, 20.0),
        ('communication_fraction', 'lower', 0.2, 0.5),
        ('comm_time_per_step_s', 'lower', 0.5, 5.0),
        ('busbw_allreduce_gb_per_s', 'higher', 200.0, 0.1),
        ('busbw_allgather_gb_per_s', 'higher', 200.0, 50.0),
        ('busbw_reducescatter_gb_per_s', 'higher', 200.0, 50.0),
        ('busbw_alltoall_gb_per_s', 'higher', 200.0, 50.0),
        ('p2p_link_utilization_pct', 'higher', 50.0, 20.0),
        ('overlap', 'higher', 50.0, 20.0),
        ('load_imbalance_ratio', 'lower', 1.1, 1.5),
        ('straggler_score', 'lower', 0.05, 0.2),
        ('scale_up_bw_utility_model_pct', 'higher', 10.0, 2.0),
        ('collective_vol_allreduce_gb', 'lower', 1.0, 10.0),
        ('collective_vol_allgather_gb', 'lower', 1.0, 10.0),
        ('collective_vol_reducescatter_gb', 'lower', 1.0, 10.0),
        ('collective_vol_alltoall_gb', 'lower', 0.5, 5.0),
        ('collective_vol_total_gb', 'lower', 2.0, 20.0)
) AS thresholds (metric, better, good, poor)
ORDER BY metric
