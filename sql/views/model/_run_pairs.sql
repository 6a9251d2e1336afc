-- @view     _run_pairs
-- @summary  Each trace beside each other one: by what unit of work their times can be compared.
-- @materialize session
-- @requires _run_units
-- @column   base VARCHAR dim - | A trace.
-- @column   test VARCHAR dim - | Another one.
-- @column   is_stepped BOOLEAN value - | Both have steps: the unit is a step, else the run as it
--           was recorded.
-- @column   is_alike BOOLEAN value - | Units hold like work: they are steps, or runs whose ranks
--           ran as many kernels, within 1 %. NULL where nothing says it.
-- @column   base_units DOUBLE value - | Units in the base.
-- @column   test_units DOUBLE value - | Units in the test.
-- @column   base_unit_ns DOUBLE value ns | Mean time of a unit of the base.
-- @column   test_unit_ns DOUBLE value ns | Mean time of a unit of the test.
-- @column   base_devices DOUBLE value - | Devices of a rank of the base.
-- @column   test_devices DOUBLE value - | Devices of a rank of the test.
WITH
    pairs AS (
        SELECT
            b.trace AS base, t.trace AS test,
            b.step_count IS NOT NULL AND t.step_count IS NOT NULL AS is_stepped,
            b.step_count AS base_steps, t.step_count AS test_steps,
            b.mean_step_ns AS base_step_ns, t.mean_step_ns AS test_step_ns,
            b.mean_window_ns AS base_window_ns, t.mean_window_ns AS test_window_ns,
            b.device_count AS base_devices, t.device_count AS test_devices,
            abs(t.kernel_count / nullif(b.kernel_count, 0) - 1) <= 0.01 AS has_like_kernels
        FROM _run_units AS b
        INNER JOIN _run_units AS t ON t.trace <> b.trace
    )

SELECT
    base, test, is_stepped,
    is_stepped OR has_like_kernels AS is_alike,
    CASE WHEN is_stepped THEN base_steps ELSE 1 END AS base_units,
    CASE WHEN is_stepped THEN test_steps ELSE 1 END AS test_units,
    nullif(CASE WHEN is_stepped THEN base_step_ns ELSE base_window_ns END, 0) AS base_unit_ns,
    nullif(CASE WHEN is_stepped THEN test_step_ns ELSE test_window_ns END, 0) AS test_unit_ns,
    base_devices, test_devices
FROM pairs
