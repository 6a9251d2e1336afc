-- @diagnosis dominant_kernel
-- @version  1
-- @summary  One kernel takes most of the compute of a step.
-- @profilers kineto nsys xla
-- @requires device_events _kernel_costs _cost_bounds
-- @reads    _rank_peaks _diagnosis_limits
-- @param    dominant_share DOUBLE 0.5 | Share of the compute of a step above which one kernel
--           dominates it.
-- @param    dominant_peak DOUBLE 0.5 | Share of the peak of the device that is taken as good.
-- @gain     the time of the kernel beyond what its floating-point operations take at dominant_peak
--           of the peak of the device for bfloat16; the step loses of it what the rank loses that
--           loses least, waiting for others included. NULL where the trace does not say operations:
--           the kernel may be as fast as it can be, and the finding is information
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

    kernels AS (
        SELECT
            trace, name, sum(time_ms ORDER BY rank) AS time_ms,
            avg(kernels_per_step ORDER BY rank) AS kernels_per_step,
            sum(flops_per_step) AS flops, sum(flops_ms ORDER BY rank) AS flops_ms
        FROM _kernel_costs
        GROUP BY trace, name
    ),

    dominant AS (
        SELECT
            k.trace, k.name, k.kernels_per_step, k.time_ms / t.time_ms AS share,
            k.flops / nullif(k.flops_ms, 0) * 1e3 / p.peak AS peak_share,
            CASE WHEN k.flops_ms >= 0.95 * k.time_ms
                THEN greatest(1 - k.flops / k.flops_ms * 1e3 / (p.peak * $dominant_peak), 0)
            END AS excess_share
        FROM kernels AS k
        INNER JOIN totals AS t ON t.trace = k.trace
        LEFT JOIN peaks AS p ON p.trace = k.trace
        WHERE k.time_ms > $dominant_share * t.time_ms
    )

SELECT
    b.trace,
    printf(
        '%s takes %.0f %% of the compute: %.3f ms of a step (%.1f %%), %.0f calls%s', left(b.key, 80),
        100 * d.share, b.own_ms, 100 * b.own_ms / b.step_ms, d.kernels_per_step,
        CASE WHEN d.excess_share IS NULL THEN '; how fast it could be is not known'
            ELSE printf(', at %.1f %% of the peak of the device', 100 * d.peak_share)
        END
    ) AS finding,
    {kernel: b.key} AS "where",
    b.time_ms AS time_per_step_ms,
    d.excess_share * b.gain_ms AS gain_ms,
    [l.steps_limit] AS limits,
    'look at this kernel first: its shapes (multiples of 8 or 64), its type (bfloat16, FP8, TF32 by torch.set_float32_matmul_precision("high")), a better one (FlashAttention, cuDNN, Transformer Engine; torch.compile(mode="max-autotune")), and how it does in Nsight Compute'
        AS advice,
    'SELECT rank, name, kernels_per_step, time_ms, flops_per_s FROM _kernel_costs WHERE trace = {trace} ORDER BY time_ms DESC LIMIT 20'
        AS evidence
FROM _cost_bounds AS b
INNER JOIN dominant AS d ON d.trace = b.trace AND d.name = b.key
INNER JOIN _diagnosis_limits AS l ON l.trace = b.trace
WHERE b.subject = 'kernel' AND coalesce(d.excess_share, 1) > 0
