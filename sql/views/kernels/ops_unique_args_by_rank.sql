-- @view     ops_unique_args_by_rank
-- @summary  Operators of each rank by the shapes and types of their arguments: how often they ran,
--           and how long the kernels take that they launch.
-- @requires _op_arguments
-- @null     no kernel names the operator that launched it
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank; NULL for devices that are of none.
-- @column   op_name VARCHAR dim - | Innermost operator on the host.
-- @column   input_dims VARCHAR dim - | Shapes of its arguments as recorded, as JSON; NULL where
--           they were not.
-- @column   input_types VARCHAR dim - | Types of its arguments, likewise.
-- @column   call_count BIGINT value count | Calls that launched a kernel.
-- @column   kernel_count BIGINT value count | Kernels that they launched.
-- @column   total_us DOUBLE value us lower | Durations of these kernels added up.
-- @column   mean_us DOUBLE value us lower | Mean over the calls.
-- @column   min_us DOUBLE value us | Shortest call.
-- @column   max_us DOUBLE value us | Longest call.
-- @column   share_pct DOUBLE value pct | Share of the kernel time of all operators of the rank.
-- @heading  op_name | name
-- @heading  input_dims | Input Dims
-- @heading  input_types | Input type
-- @heading  call_count | operation_count
-- @heading  total_us | total_direct_kernel_time_sum (us)
-- @heading  mean_us | total_direct_kernel_time_mean (us)
-- @heading  min_us | total_direct_kernel_time_min (us)
-- @heading  max_us | total_direct_kernel_time_max (us)
-- @heading  share_pct | Percentage (%)
-- @source   TraceLens ops_unique_args, without strides and concrete values
SELECT
    trace, rank, op_name, input_dims, input_types,
    CAST(sum(call_count) AS BIGINT) AS call_count,
    CAST(sum(kernel_count) AS BIGINT) AS kernel_count,
    sum(dur_ns) / 1e3 AS total_us,
    sum(dur_ns) / 1e3 / sum(call_count) AS mean_us,
    min(min_dur_ns) / 1e3 AS min_us,
    max(max_dur_ns) / 1e3 AS max_us,
    100 * CAST(sum(dur_ns) AS DOUBLE) / nullif(sum(sum(dur_ns)) OVER (PARTITION BY trace, rank), 0)
        AS share_pct
FROM _op_arguments
GROUP BY trace, rank, op_name, input_dims, input_types
ORDER BY trace, rank, total_us DESC, op_name, input_dims, input_types
