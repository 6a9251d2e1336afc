-- @comparison nccl_impl_sync_cmp
-- @summary  Calls that synchronise their ranks by kind, type and size, in both runs: latency and
--           bandwidth; the largest change of the sum first.
-- @requires nccl_summary_implicit_sync
-- @param    base VARCHAR NULL | Trace of the baseline.
-- @param    test VARCHAR NULL | Trace that is compared with it.
-- @null     neither run has such calls
-- @column   collective VARCHAR dim - | Kind.
-- @column   dtype VARCHAR dim - | Element type as recorded.
-- @column   in_elems BIGINT dim - | Elements of the input of a rank.
-- @column   group_size BIGINT dim - | Ranks of the group.
-- @column   base_mean_latency_us DOUBLE value us lower | Mean over the calls of the shortest
--           duration over the ranks, in the baseline.
-- @column   test_mean_latency_us DOUBLE value us lower | The same in the test.
-- @column   diff_mean_latency_us DOUBLE value us lower | Test - baseline.
-- @column   mean_latency_us_change_pct DOUBLE value pct lower | (test - baseline) / baseline x 100.
-- @column   mean_latency_us_ratio DOUBLE value ratio | Test / baseline.
-- @column   base_mean_algo_bw_gb_per_s DOUBLE value gb_per_s higher | Mean algorithm bandwidth, in
--           the baseline.
-- @column   test_mean_algo_bw_gb_per_s DOUBLE value gb_per_s higher | The same in the test.
-- @column   diff_mean_algo_bw_gb_per_s DOUBLE value gb_per_s higher | Test - baseline.
-- @column   mean_algo_bw_gb_per_s_change_pct DOUBLE value pct higher | (test - baseline) / baseline
--           x 100.
-- @column   mean_algo_bw_gb_per_s_ratio DOUBLE value ratio | Test / baseline.
-- @column   base_mean_bus_bw_gb_per_s DOUBLE value gb_per_s higher | Mean bus bandwidth, in the
--           baseline.
-- @column   test_mean_bus_bw_gb_per_s DOUBLE value gb_per_s higher | The same in the test.
-- @column   diff_mean_bus_bw_gb_per_s DOUBLE value gb_per_s higher | Test - baseline.
-- @column   mean_bus_bw_gb_per_s_change_pct DOUBLE value pct higher | (test - baseline) / baseline
--           x 100.
-- @column   mean_bus_bw_gb_per_s_ratio DOUBLE value ratio | Test / baseline.
-- @column   base_total_latency_ms DOUBLE value ms lower | Latencies added up, in the baseline.
-- @column   test_total_latency_ms DOUBLE value ms lower | The same in the test.
-- @column   diff_total_latency_ms DOUBLE value ms lower | Test - baseline.
-- @column   total_latency_ms_change_pct DOUBLE value pct lower | (test - baseline) / baseline x
--           100.
-- @column   total_latency_ms_ratio DOUBLE value ratio | Test / baseline.
-- @column   base_calls BIGINT value calls | Calls, in the baseline.
-- @column   test_calls BIGINT value calls | The same in the test.
-- @column   diff_calls BIGINT value calls | Test - baseline.
-- @column   calls_ratio DOUBLE value ratio | Test / baseline.
-- @heading  collective | Collective name
-- @heading  in_elems | In msg nelems
-- @heading  group_size | Group size
-- @heading  base_mean_latency_us | baseline_comm_latency_mean (us)
-- @heading  test_mean_latency_us | test_comm_latency_mean (us)
-- @heading  diff_mean_latency_us | diff_comm_latency_mean (us)
-- @heading  mean_latency_us_change_pct | percent_change_comm_latency_mean (test - baseline)
-- @heading  mean_latency_us_ratio | ratio_comm_latency_mean
-- @heading  base_mean_algo_bw_gb_per_s | baseline_algo bw (GB/s)_mean
-- @heading  test_mean_algo_bw_gb_per_s | test_algo bw (GB/s)_mean
-- @heading  diff_mean_algo_bw_gb_per_s | diff_algo bw (GB/s)_mean
-- @heading  mean_algo_bw_gb_per_s_change_pct | percent_change_algo bw (GB/s)_mean (test - baseline)
-- @heading  mean_algo_bw_gb_per_s_ratio | ratio_algo bw (GB/s)_mean
-- @heading  base_mean_bus_bw_gb_per_s | baseline_bus bw (GB/s)_mean
-- @heading  test_mean_bus_bw_gb_per_s | test_bus bw (GB/s)_mean
-- @heading  diff_mean_bus_bw_gb_per_s | diff_bus bw (GB/s)_mean
-- @heading  mean_bus_bw_gb_per_s_change_pct | percent_change_bus bw (GB/s)_mean (test - baseline)
-- @heading  mean_bus_bw_gb_per_s_ratio | ratio_bus bw (GB/s)_mean
-- @heading  base_total_latency_ms | baseline_Total comm latency (ms)
-- @heading  test_total_latency_ms | test_Total comm latency (ms)
-- @heading  diff_total_latency_ms | diff_Total comm latency (ms)
-- @heading  total_latency_ms_change_pct | percent_change_Total comm latency (ms) (test - baseline)
-- @heading  total_latency_ms_ratio | ratio_Total comm latency (ms)
-- @heading  base_calls | baseline_count
-- @heading  test_calls | test_count
-- @heading  diff_calls | diff_count
-- @heading  calls_ratio | ratio_count
-- @caveat   Sums are of whole runs: of runs of unlike numbers of steps compare the means.
-- @source   metrics 7.3 NCCL_ImplSync_Cmp; keys that one run lacks are kept
WITH
    base AS (
        SELECT
            collective, dtype, in_elems, group_size, mean_latency_us, mean_algo_bw_gb_per_s,
            mean_bus_bw_gb_per_s, total_latency_ms, calls
        FROM nccl_summary_implicit_sync
        WHERE trace = $base
    ),

    test AS (
        SELECT
            collective, dtype, in_elems, group_size, mean_latency_us, mean_algo_bw_gb_per_s,
            mean_bus_bw_gb_per_s, total_latency_ms, calls
        FROM nccl_summary_implicit_sync
        WHERE trace = $test
    )

SELECT
    coalesce(b.collective, t.collective) AS collective,
    coalesce(b.dtype, t.dtype) AS dtype,
    coalesce(b.in_elems, t.in_elems) AS in_elems,
    coalesce(b.group_size, t.group_size) AS group_size,
    b.mean_latency_us AS base_mean_latency_us,
    t.mean_latency_us AS test_mean_latency_us,
    t.mean_latency_us - b.mean_latency_us AS diff_mean_latency_us,
    100 * (t.mean_latency_us - b.mean_latency_us) / nullif(b.mean_latency_us, 0) AS mean_latency_us_change_pct,
    CAST(t.mean_latency_us AS DOUBLE) / nullif(b.mean_latency_us, 0) AS mean_latency_us_ratio,
    b.mean_algo_bw_gb_per_s AS base_mean_algo_bw_gb_per_s,
    t.mean_algo_bw_gb_per_s AS test_mean_algo_bw_gb_per_s,
    t.mean_algo_bw_gb_per_s - b.mean_algo_bw_gb_per_s AS diff_mean_algo_bw_gb_per_s,
    100 * (t.mean_algo_bw_gb_per_s - b.mean_algo_bw_gb_per_s) / nullif(b.mean_algo_bw_gb_per_s, 0) AS mean_algo_bw_gb_per_s_change_pct,
    CAST(t.mean_algo_bw_gb_per_s AS DOUBLE) / nullif(b.mean_algo_bw_gb_per_s, 0) AS mean_algo_bw_gb_per_s_ratio,
    b.mean_bus_bw_gb_per_s AS base_mean_bus_bw_gb_per_s,
    t.mean_bus_bw_gb_per_s AS test_mean_bus_bw_gb_per_s,
    t.mean_bus_bw_gb_per_s - b.mean_bus_bw_gb_per_s AS diff_mean_bus_bw_gb_per_s,
    100 * (t.mean_bus_bw_gb_per_s - b.mean_bus_bw_gb_per_s) / nullif(b.mean_bus_bw_gb_per_s, 0) AS mean_bus_bw_gb_per_s_change_pct,
    CAST(t.mean_bus_bw_gb_per_s AS DOUBLE) / nullif(b.mean_bus_bw_gb_per_s, 0) AS mean_bus_bw_gb_per_s_ratio,
    b.total_latency_ms AS base_total_latency_ms,
    t.total_latency_ms AS test_total_latency_ms,
    t.total_latency_ms - b.total_latency_ms AS diff_total_latency_ms,
    100 * (t.total_latency_ms - b.total_latency_ms) / nullif(b.total_latency_ms, 0) AS total_latency_ms_change_pct,
    CAST(t.total_latency_ms AS DOUBLE) / nullif(b.total_latency_ms, 0) AS total_latency_ms_ratio,
    b.calls AS base_calls,
    t.calls AS test_calls,
    t.calls - b.calls AS diff_calls,
    CAST(t.calls AS DOUBLE) / nullif(b.calls, 0) AS calls_ratio
FROM base AS b
FULL OUTER JOIN test AS t
    ON t.collective = b.collective
    AND t.dtype IS NOT DISTINCT FROM b.dtype
    AND t.in_elems IS NOT DISTINCT FROM b.in_elems
    AND t.group_size IS NOT DISTINCT FROM b.group_size
ORDER BY
    abs(coalesce(t.total_latency_ms, 0) - coalesce(b.total_latency_ms, 0)) DESC, collective, dtype, in_elems, group_size
