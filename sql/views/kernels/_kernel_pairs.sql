-- @view     _kernel_pairs
-- @summary  Kernels of two traces side by side, by name and class (level kernel) and by the
--           operator that launched them (level op): how many and how long in a unit of work.
-- @requires _run_units _unit_kernels
-- @caveat   The unit is a step where kernels of both traces were launched in steps, else the run.
--           is_alike: units hold like work, as they are steps or runs of as many kernels, within 1
--           %. unit_ns is that of the base, of all devices.
WITH
    kernels AS MATERIALIZED (
        SELECT trace, name, kernel_class, op_name, step_kernel_count, kernel_count, step_dur_ns, dur_ns
        FROM _unit_kernels
    ),

    stepped AS (
        SELECT trace, bool_or(step_kernel_count > 0) AS has_steps
        FROM kernels
        GROUP BY trace
    ),

    pairs AS (
        SELECT
            base, test, is_stepped,
            is_stepped OR abs(test_kernels / nullif(base_kernels, 0) - 1) <= 0.01 AS is_alike,
            CASE WHEN is_stepped THEN base_steps ELSE base_ranks END AS base_units,
            CASE WHEN is_stepped THEN test_steps ELSE test_ranks END AS test_units,
            devices * CASE WHEN is_stepped THEN mean_step_ns ELSE mean_window_ns END AS unit_ns
        FROM (
            SELECT
                b.trace AS base, t.trace AS test,
                b.trace <> t.trace AND coalesce(s.has_steps AND r.has_steps, FALSE) AS is_stepped,
                b.kernel_count AS base_kernels, t.kernel_count AS test_kernels,
                b.rank_step_count AS base_steps, t.rank_step_count AS test_steps,
                b.rank_count AS base_ranks, t.rank_count AS test_ranks,
                b.device_count AS devices, b.mean_step_ns, b.mean_window_ns
            FROM _run_units AS b
            CROSS JOIN _run_units AS t
            LEFT JOIN stepped AS s ON s.trace = b.trace
            LEFT JOIN stepped AS r ON r.trace = t.trace
        ) AS p
    ),

    sums AS (
        SELECT
            trace, name, kernel_class, op_name, GROUPING(op_name) = 0 AS by_op,
            sum(step_kernel_count) AS step_kernels, sum(kernel_count) AS run_kernels,
            sum(step_dur_ns) AS step_ns, sum(dur_ns) AS run_ns
        FROM kernels
        GROUP BY GROUPING SETS ((trace, name, kernel_class), (trace, op_name))
    ),

    sides AS (
        SELECT
            p.base, p.test, m.side, s.by_op, s.name, s.kernel_class, s.op_name,
            CASE m.side WHEN 'base' THEN p.base_units ELSE p.test_units END AS units,
            CAST(CASE WHEN p.is_stepped THEN s.step_kernels ELSE s.run_kernels END AS DOUBLE)
                AS kernels,
            CAST(CASE WHEN p.is_stepped THEN s.step_ns ELSE s.run_ns END AS DOUBLE) AS dur_ns
        FROM pairs AS p
        CROSS JOIN (VALUES ('base'), ('test')) AS m (side)
        INNER JOIN sums AS s ON s.trace = CASE m.side WHEN 'base' THEN p.base ELSE p.test END
    ),

    paired AS (
        SELECT
            base, test, by_op, name, kernel_class, op_name,
            max(kernels / units) FILTER (WHERE side = 'base') AS base_kernel_count,
            max(kernels / units) FILTER (WHERE side = 'test') AS test_kernel_count,
            max(dur_ns / units / 1e6) FILTER (WHERE side = 'base') AS base_total_ms,
            max(dur_ns / units / 1e6) FILTER (WHERE side = 'test') AS test_total_ms,
            max(dur_ns / kernels / 1e3) FILTER (WHERE side = 'base') AS base_mean_us,
            max(dur_ns / kernels / 1e3) FILTER (WHERE side = 'test') AS test_mean_us
        FROM sides
        WHERE kernels > 0
        GROUP BY base, test, by_op, name, kernel_class, op_name
    ),

    differing AS (
        SELECT
            base, test, by_op, name, kernel_class, op_name, base_kernel_count, test_kernel_count,
            base_total_ms, test_total_ms, base_mean_us, test_mean_us,
            coalesce(test_total_ms, 0) - coalesce(base_total_ms, 0) AS diff_total_ms
        FROM paired
    )

SELECT
    d.base, d.test, CASE WHEN d.by_op THEN 'op' ELSE 'kernel' END AS level,
    d.name, d.kernel_class AS class, d.op_name,
    CASE WHEN p.is_stepped THEN 'step' ELSE 'run' END AS unit,
    p.is_alike,
    CASE
        WHEN d.test_total_ms IS NULL THEN 'baseline'
        WHEN d.base_total_ms IS NULL THEN 'test'
        ELSE 'both'
    END AS found_in,
    d.base_kernel_count, d.test_kernel_count, d.base_total_ms, d.test_total_ms, d.diff_total_ms,
    100 * d.diff_total_ms / nullif(d.base_total_ms, 0) AS total_change_pct,
    100 * d.diff_total_ms / nullif(p.unit_ns / 1e6, 0) AS effect_pct,
    d.base_mean_us, d.test_mean_us,
    100 * (d.test_mean_us - d.base_mean_us) / nullif(d.base_mean_us, 0) AS mean_change_pct
FROM differing AS d
INNER JOIN pairs AS p ON p.base = d.base AND p.test = d.test
