-- @view     ops_roofline
-- @summary  Operators of all ranks by the shapes and types of their arguments, with what one call
--           computes and moves, and how near its kernels come to the peaks of the device: matrix
--           products, convolutions, attention, pointwise operators and copies.
-- @requires _op_arguments _op_costs
-- @reads    _rank_peaks
-- @null     no kernel names an operator of op_models with the shapes of its arguments
--           (record_shapes=True of PyTorch's profiler records them)
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   op_name VARCHAR dim - | Innermost operator on the host.
-- @column   kind VARCHAR dim - | gemm, conv, conv_bwd, attention, attention_bwd, pointwise or copy.
-- @column   problem VARCHAR value - | What is computed: sizes of the matrices (B times M x K by K x
--           N), of input and weight, of batch, heads, queries, keys and head; NULL where the
--           arguments do not say it.
-- @column   input_dims VARCHAR dim - | Shapes of its arguments as recorded, as JSON.
-- @column   input_types VARCHAR dim - | Types of its arguments, likewise.
-- @column   concrete_inputs VARCHAR dim - | Values of its arguments, likewise.
-- @column   precision VARCHAR value - | Precision whose peak counts; tf32 where a kernel says so in
--           its name. NULL where no matrix unit is used.
-- @column   call_count BIGINT value count | Calls that launched a kernel.
-- @column   kernel_count BIGINT value count | Kernels that they launched.
-- @column   total_us DOUBLE value us lower | Durations of these kernels added up.
-- @column   mean_us DOUBLE value us lower | Mean over the calls.
-- @column   share_pct DOUBLE value pct | Share of the kernel time of all operators, of those that
--           are not here too.
-- @column   flops DOUBLE value flops | Floating-point operations of one call.
-- @column   moved_bytes DOUBLE value bytes | Bytes of the tensors that one call reads and writes,
--           each once.
-- @column   intensity DOUBLE value flops_per_byte | flops / moved_bytes.
-- @column   achieved_flops_per_s DOUBLE value flops_per_s higher | flops / mean time.
-- @column   achieved_gb_per_s DOUBLE value gb_per_s higher | moved_bytes / mean time.
-- @column   peak_flops_per_s DOUBLE value flops_per_s | Peak of the device in this precision.
-- @column   peak_gb_per_s DOUBLE value gb_per_s | Peak bandwidth of its memory.
-- @column   bound VARCHAR value - | compute or memory: which of the two peaks allows less.
-- @column   roofline_us DOUBLE value us | Least time of a call that the peaks allow.
-- @column   roofline_pct DOUBLE value pct higher | roofline_us / mean_us: 100 is the roofline.
-- @column   above_roofline_us DOUBLE value us lower | Time of all calls beyond it: what there is to
--           gain at most.
-- @heading  op_name | name
-- @heading  input_dims | Input Dims
-- @heading  input_types | Input type
-- @heading  concrete_inputs | Concrete Inputs
-- @heading  call_count | operation_count
-- @heading  intensity | FLOPS/Byte
-- @caveat   Tensors are counted whole, as if none were in a cache and none were expanded: what fits
--           into a cache may be above 100 %.
-- @caveat   Of several devices in a trace the least peaks count.
-- @source   TraceLens PerfModel (flops and bytes of GEMM, CONV and SDPA); Williams, Waterman,
--           Patterson: Roofline, CACM 52(4), 2009
WITH
    peaks AS (
        SELECT
            trace, min(hbm_gb_per_s) AS hbm_gb_per_s, min(bf16_flops_per_s) AS bf16,
            min(fp16_flops_per_s) AS fp16, min(tf32_flops_per_s) AS tf32, min(fp32_flops_per_s) AS fp32,
            min(fp8_flops_per_s) AS fp8, min(int8_flops_per_s) AS int8
        FROM _rank_peaks
        GROUP BY trace
    ),

    totals AS (
        SELECT trace, sum(dur_ns) AS all_ns
        FROM _op_arguments
        GROUP BY trace
    ),

    calls AS (
        SELECT
            trace, op_name, input_dims, input_types, concrete_inputs,
            bool_or(is_tf32) AS is_tf32,
            CAST(sum(call_count) AS BIGINT) AS call_count,
            CAST(sum(kernel_count) AS BIGINT) AS kernel_count,
            sum(dur_ns) AS dur_ns
        FROM _op_arguments
        GROUP BY trace, op_name, input_dims, input_types, concrete_inputs
    ),

    costed AS (
        SELECT
            c.trace, c.op_name, o.kind, o.problem, c.input_dims, c.input_types, c.concrete_inputs,
            CASE WHEN c.is_tf32 AND o.precision = 'fp32' THEN 'tf32' ELSE o.precision END AS precision,
            c.call_count, c.kernel_count, c.dur_ns,
            c.dur_ns / 1e3 / c.call_count AS mean_us,
            o.flops, o.bytes
        FROM calls AS c
        INNER JOIN _op_costs AS o
            ON o.trace = c.trace
            AND o.op_name = c.op_name
            AND o.input_dims = c.input_dims
            AND o.input_types IS NOT DISTINCT FROM c.input_types
            AND o.concrete_inputs IS NOT DISTINCT FROM c.concrete_inputs
    ),

    peaked AS (
        SELECT
            c.trace, c.op_name, c.kind, c.problem, c.input_dims, c.input_types, c.concrete_inputs,
            c.precision, c.call_count, c.kernel_count, c.dur_ns, c.mean_us, c.flops, c.bytes,
            CASE c.precision
                WHEN 'bf16' THEN p.bf16
                WHEN 'fp16' THEN p.fp16
                WHEN 'tf32' THEN p.tf32
                WHEN 'fp32' THEN p.fp32
                WHEN 'fp8' THEN p.fp8
                WHEN 'int8' THEN p.int8
            END AS peak_flops_per_s,
            p.hbm_gb_per_s AS peak_gb_per_s,
            100 * CAST(c.dur_ns AS DOUBLE) / nullif(t.all_ns, 0) AS share_pct
        FROM costed AS c
        INNER JOIN totals AS t ON t.trace = c.trace
        LEFT JOIN peaks AS p ON p.trace = c.trace
    ),

    -- Both peaks are needed, but of what uses no matrix unit.
    bounded AS (
        SELECT
            trace, op_name, kind, problem, input_dims, input_types, concrete_inputs, precision,
            call_count, kernel_count, dur_ns, mean_us, flops, bytes, peak_flops_per_s, peak_gb_per_s,
            share_pct,
            CASE WHEN kind IN ('pointwise', 'copy') THEN 0 ELSE 1e6 * flops / peak_flops_per_s END
                AS compute_us,
            bytes / 1e3 / peak_gb_per_s AS memory_us
        FROM peaked
    ),

    roofs AS (
        SELECT
            trace, op_name, kind, problem, input_dims, input_types, concrete_inputs, precision,
            call_count, kernel_count, dur_ns, mean_us, flops, bytes, peak_flops_per_s, peak_gb_per_s,
            share_pct,
            CASE WHEN compute_us > memory_us THEN 'compute' WHEN compute_us <= memory_us THEN 'memory' END
                AS bound,
            CASE WHEN compute_us > memory_us THEN compute_us WHEN compute_us <= memory_us THEN memory_us END
                AS roofline_us
        FROM bounded
    )

SELECT
    trace, op_name, kind, problem, input_dims, input_types, concrete_inputs, precision, call_count,
    kernel_count,
    dur_ns / 1e3 AS total_us,
    mean_us,
    share_pct,
    flops,
    bytes AS moved_bytes,
    flops / nullif(bytes, 0) AS intensity,
    1e6 * flops / nullif(mean_us, 0) AS achieved_flops_per_s,
    bytes / 1e3 / nullif(mean_us, 0) AS achieved_gb_per_s,
    peak_flops_per_s,
    peak_gb_per_s,
    bound,
    roofline_us,
    100 * roofline_us / nullif(mean_us, 0) AS roofline_pct,
    CASE WHEN roofline_us IS NOT NULL THEN greatest(dur_ns / 1e3 - call_count * roofline_us, 0) END
        AS above_roofline_us
FROM roofs
ORDER BY trace, total_us DESC, op_name, input_dims, input_types, concrete_inputs
