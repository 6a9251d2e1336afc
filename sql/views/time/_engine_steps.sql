-- @view     _engine_steps
-- @summary  Steps of an inference engine on the host of a rank, by the surest marker that a trace
--           has, with what they were for where the marker says it.
-- @requires _engine_markers
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank; NULL for a host process that drives several.
-- @column   ts_ns BIGINT value ns | Start.
-- @column   dur_ns BIGINT value ns | Duration.
-- @column   marker VARCHAR value - | step_range (ranges that --step-range chose), execute_context
--           (vLLM), step (SGLang), run_batch (SGLang), core_step (vLLM on TPU) or engine_step
--           (another name that frameworks use).
-- @column   purpose VARCHAR value - | prefill (the step reads a prompt, beside others that decode
--           or not), decode, or none (idle, or of a draft model); NULL where the marker does not
--           say it.
WITH
    surest AS (
        SELECT trace, rank, ts_ns, dur_ns, place, purpose
        FROM _engine_markers
        QUALIFY place = min(place) OVER (PARTITION BY trace)
    )

SELECT
    trace, rank, ts_ns, dur_ns,
    CASE place
        WHEN 0 THEN 'step_range'
        WHEN 1 THEN 'execute_context'
        WHEN 2 THEN 'step'
        WHEN 3 THEN 'run_batch'
        WHEN 4 THEN 'core_step'
        ELSE 'engine_step'
    END AS marker,
    purpose
FROM surest
