-- @diagnosis dominant_kernel
-- @version  1
-- @summary  One kernel takes most of the compute of a step, where compute is no small part of it.
-- @profilers kineto nsys xla
-- @requires device_events _kernel_costs _cost_bounds
-- @reads    _rank_account _rank_peaks _kernel_sums _wording _diagnosis_limits
-- @param    dominant_share DOUBLE 0.5 | Share of the compute of a step above which one kernel
--           dominates it; 0.05 at least.
-- @param    least_compute_share DOUBLE 0.2 | Share of the step below which no kernel of the compute
--           is said to dominate.
-- @param    dominant_peak DOUBLE 0.5 | Share of the peak of the device that is taken as good.
-- @gain     the time of the kernel beyond what its floating-point operations take at dominant_peak
--           of the peak of the device for bfloat16; the step loses of it what the rank loses that
--           loses least, waiting for others included. NULL where the trace does not say operations,
--           or nobody knows the peak: the kernel may be as fast as it can be, and the finding is
--           information
-- @shown    dominant_kernel_concentration_pct
-- @caveat   A kernel that does most of the work is no fault by itself. Work in float32 is compared
--           with the peak of bfloat16.
-- @source   metrics 2.F dominant_kernel_concentration; rates as in mfu
WITH
    peaks AS (
        SELECT trace, max(bf16_flops_per_s) AS peak
        FROM _rank_peaks
        GROUP BY trace
    ),

    totals AS (
        SELECT trace, sum(time_ms ORDER BY rank, name) AS time_ms
        FROM _kernel_costs
        GROUP BY trace
    ),

    computed AS (
        SELECT trace
        FROM _rank_account
        GROUP BY trace
        HAVING coalesce(sum(time_ms ORDER BY rank) FILTER (WHERE part = 'compute'), 0)
            >= $least_compute_share * sum(time_ms ORDER BY rank, part, for_rank)
    ),

    classes AS (
        SELECT trace, name, arg_max(kernel_class, dur_ns) AS kernel_class
        FROM _kernel_sums
        GROUP BY trace, name
    ),

    kernels AS (
        SELECT
            trace, name, sum(time_ms ORDER BY rank) AS time_ms,
            sum(kernels_per_step ORDER BY rank) AS kernels_per_step,
            sum(flops_per_step) AS flops, sum(flops_ms ORDER BY rank) AS flops_ms
        FROM _kernel_costs
        GROUP BY trace, name
    ),

    dominant AS (
        SELECT
            k.trace, k.name, x.kernel_class, k.kernels_per_step, k.time_ms / t.time_ms AS share,
            k.flops / k.flops_ms * 1e3 / p.peak AS peak_share,
            CASE WHEN k.flops_ms >= 0.95 * k.time_ms AND p.peak > 0
                THEN greatest(1 - k.flops / k.flops_ms * 1e3 / (p.peak * $dominant_peak), 0)
            END AS excess_share
        FROM kernels AS k
        INNER JOIN totals AS t ON t.trace = k.trace
        INNER JOIN computed AS c ON c.trace = k.trace
        LEFT JOIN classes AS x ON x.trace = k.trace AND x.name = k.name
        LEFT JOIN peaks AS p ON p.trace = k.trace
        WHERE k.time_ms > $dominant_share * t.time_ms
    )

SELECT
    b.trace,
    printf(
        '%s takes %.0f %% of the compute: %.3f ms %s (%.1f %%)%s, %s%s', left(b.key, 80),
        100 * d.share, b.own_ms, w.of_what, 100 * b.own_ms / b.step_ms,
        b.some_text,
        printf(b.count_form || ' calls', d.kernels_per_step / b.rank_count),
        CASE WHEN d.excess_share IS NULL THEN '; how fast it could be is not known'
            ELSE printf(', at %.1f %% of the peak of the device', 100 * d.peak_share)
        END
    ) AS finding,
    {kernel: b.key} AS "where",
    b.time_ms AS time_per_step_ms,
    d.excess_share * b.gain_ms AS gain_ms,
    [l.steps_limit] AS limits,
    'look at this kernel first: '
        || CASE
            WHEN w.framework = 'xla'
                THEN 'its type (bfloat16; jax.default_matmul_precision), layouts that need no transposing, what XLA fuses with it, a kernel of its own (Pallas)'
                    || CASE WHEN w.vendor = 'google' THEN ', dimensions that are multiples of 128' ELSE '' END
            WHEN w.framework = 'native' THEN 'its access to memory, its type, and how it fills the device'
            WHEN d.kernel_class = 'gemm'
                THEN 'its shapes (multiples of 8 or 64), its type (bfloat16, FP8'
                    || CASE WHEN w.vendor = 'nvidia' THEN ', TF32 by torch.set_float32_matmul_precision("high")' ELSE '' END
                    || '), another one (torch.compile(mode="max-autotune")'
                    || CASE WHEN w.vendor = 'amd' THEN ', PYTORCH_TUNABLEOP_ENABLED=1' ELSE '' END || ')'
            WHEN d.kernel_class = 'attention'
                THEN 'a newer or other one (scaled_dot_product_attention and its backends, '
                    || CASE WHEN w.vendor = 'amd' THEN 'AITER' ELSE 'FlashAttention, cuDNN' END
                    || '), masks that it need not compute (FlexAttention), shorter or packed sequences'
            WHEN d.kernel_class = 'moe'
                THEN 'how many tokens each expert gets (few ones leave its tiles empty), its block sizes, its type (FP8, MXFP4), more tokens in a batch'
            WHEN d.kernel_class IN ('elementwise', 'copy', 'reduction', 'normalization', 'softmax')
                THEN 'it moves memory more than it computes: fuse it with its neighbours (torch.compile), in a smaller type'
            ELSE 'its shapes, its type, and how it fills the device'
        END
        || CASE w.vendor
            WHEN 'nvidia' THEN '; then how it does in Nsight Compute'
            WHEN 'amd' THEN '; then how it does in ROCm Compute Profiler (rocprof-compute)'
            WHEN 'google' THEN '; then how it does in the roofline tool of XProf'
            ELSE ''
        END
        AS advice,
    'SELECT rank, name, kernels_per_step, time_ms, flops_per_s FROM _kernel_costs WHERE trace = {trace} ORDER BY time_ms DESC LIMIT 20'
        AS evidence
FROM _cost_bounds AS b
INNER JOIN dominant AS d ON d.trace = b.trace AND d.name = b.key
INNER JOIN _wording AS w ON w.trace = b.trace
INNER JOIN _diagnosis_limits AS l ON l.trace = b.trace
WHERE b.subject = 'kernel' AND coalesce(d.excess_share, 1) > 0
