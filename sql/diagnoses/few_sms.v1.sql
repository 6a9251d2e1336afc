-- @diagnosis few_sms
-- @version  1
-- @summary  A kernel has blocks for less than half of the multiprocessors.
-- @profilers kineto nsys
-- @requires device_events _kernel_costs _cost_bounds
-- @reads    _wording _diagnosis_limits _shape_reasons
-- @reason   (SELECT why FROM _shape_reasons)
--           | whole CUDA graphs were traced, or no kernel that takes time states a usable number of
--           blocks
-- @check    (SELECT coalesce(sum(known_ms), 0) FROM _kernel_costs) > 0
--           | the trace does not say how many multiprocessors a device has
-- @gain     the time of the kernel (of at least 10 us a call) x the share of multiprocessors for
--           which it has no block, as if it ran so much faster on all of them, on all ranks: a rank
--           loses that time, and of its exposed waiting for another rank no more than that one
--           loses; the step loses what the rank loses that loses least
-- @shown    low_sm_coverage_fraction_pct
-- @caveat   Kernels of class compute only: those of communication take few blocks on purpose. What
--           runs beside another kernel may leave it the other multiprocessors.
-- @source   coverage as in low_sm_coverage_fraction_pct, below 50 %
WITH
    kernels AS (
        SELECT
            trace, name, sum(few_ms ORDER BY rank) AS few_ms,
            sum(few_per_step ORDER BY rank) AS few_per_step,
            1 - sum(low_ms ORDER BY rank) / sum(few_ms ORDER BY rank) AS coverage
        FROM _kernel_costs
        WHERE low_ms > 0
        GROUP BY trace, name
    )

SELECT
    b.trace,
    printf(
        '%s has blocks for %.0f %% of the multiprocessors; it takes %.3f ms %s (%.1f %%)%s, %s',
        left(b.key, 80), 100 * k.coverage, k.few_ms / b.rank_count, w.of_what,
        100 * k.few_ms / b.rank_count / b.step_ms,
        b.some_text,
        printf(b.count_form || ' calls', k.few_per_step / b.rank_count)
    ) AS finding,
    {kernel: b.key} AS "where",
    greatest(b.time_ms, k.few_ms / b.rank_count) AS time_per_step_ms,
    b.gain_ms,
    [l.steps_limit] AS limits,
    'give it more blocks: larger batches or sequences in a call, a split over the reduced dimension (split-K, flash decoding), other tile sizes, several of them in one grouped call; or run it beside others on a stream of its own'
        AS advice,
    'SELECT rank, name, few_per_step, few_ms, low_coverage, low_ms FROM _kernel_costs WHERE trace = {trace} AND low_ms > 0 ORDER BY low_ms DESC LIMIT 20'
        AS evidence
FROM _cost_bounds AS b
INNER JOIN kernels AS k ON k.trace = b.trace AND k.name = b.key
INNER JOIN _wording AS w ON w.trace = b.trace
INNER JOIN _diagnosis_limits AS l ON l.trace = b.trace
WHERE b.subject = 'few_sms' AND b.gain_ms > 0
QUALIFY row_number() OVER (PARTITION BY b.trace ORDER BY b.gain_ms DESC, b.key) <= 3
