-- @view     _engine_steps
-- @summary  Steps of an inference engine on the host of a rank, by the surest marker that a trace has, with what they were for where the marker says it.
-- @requires host_events
-- @reads    step_ranges
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank; NULL for a host process that drives several.
-- @column   ts_ns BIGINT value ns | Start.
-- @column   dur_ns BIGINT value ns | Duration.
-- @column   marker VARCHAR value - | execute_context (vLLM), run_batch (SGLang), core_step (vLLM on TPU) or engine_step (another name that frameworks use).
-- @column   prefill_requests BIGINT value - | Requests whose prompt the step read; NULL where the marker does not say it.
-- @column   decode_requests BIGINT value - | Requests for which it made a token, likewise.
-- @source   metrics 1.6 and 5.1: execute_context_<n>(..)_generation_<m>(..) has n requests in prefill and m in decode
WITH
    named AS (
        SELECT
            trace, source, rank, ts_ns, dur_ns, name,
            CASE
                WHEN name LIKE 'execute!_context!_%!_generation!_%' ESCAPE '!' THEN 1
                WHEN name LIKE '%: run!_batch' ESCAPE '!' THEN 2
                WHEN name LIKE '$core.py:% step' THEN 3
            END AS place
        FROM host_events
        WHERE dur_ns IS NOT NULL
            AND class <> 'device_annotation'
            AND (
                name LIKE 'execute!_context!_%!_generation!_%' ESCAPE '!'
                OR name LIKE '%: run!_batch' ESCAPE '!'
                OR name LIKE '$core.py:% step'
            )
    ),

    all_steps AS (
        SELECT trace, source, rank, ts_ns, dur_ns, name, place
        FROM named
        UNION ALL
        SELECT trace, source, rank, ts_ns, dur_ns, NULL AS name, 4 AS place
        FROM step_ranges
        WHERE marker = 'engine step'
    ),

    surest AS (
        SELECT trace, ts_ns, rank, dur_ns, name, place
        FROM all_steps
        QUALIFY place = min(place) OVER (PARTITION BY trace)
    ),

    counted AS (
        SELECT
            trace, rank, ts_ns, dur_ns, place,
            CASE WHEN place = 1 THEN
                TRY_CAST(split_part(substr(name, 17), '(', 1) AS BIGINT)
            END AS prefill_requests,
            CASE WHEN place = 1 THEN
                TRY_CAST(split_part(split_part(name, '_generation_', 2), '(', 1) AS BIGINT)
            END AS decode_requests
        FROM surest
    )

SELECT
    trace, rank, ts_ns, dur_ns,
    CASE place
        WHEN 1 THEN 'execute_context'
        WHEN 2 THEN 'run_batch'
        WHEN 3 THEN 'core_step'
        ELSE 'engine_step'
    END AS marker,
    prefill_requests, decode_requests
FROM counted
