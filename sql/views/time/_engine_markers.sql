-- @view     _engine_markers
-- @summary  Ranges on the host of a rank that may be steps of an inference engine, by marker, with
--           what they were for where the marker says it.
-- @materialize session
-- @partition rank
-- @requires host_events
-- @reads    step_ranges metadata
-- @caveat   place is that of the marker: the least is the surest. 0 are ranges of --step-range,
--           which are steps of an engine where their names say prefill, extend or decode: a step of
--           a training is none.
-- @source   metrics 1.6 and 5.1: execute_context_<n>(..)_generation_<m>(..), also with the tokens
--           as execute_<t>_context_.., has n requests in prefill and m in decode; SGLang writes
--           step[<mode> bs=..] with the names of its ForwardMode
WITH
    -- Kineto has its own marker of steps; what else stands in step_ranges was chosen by the user.
    chosen AS (
        SELECT DISTINCT trace, rank
        FROM metadata
        WHERE key = 'step_marker'
            AND json_valid(value)
            AND json_extract_string(value, '$.by') = '--step-range'
    ),

    ranges AS (
        SELECT
            r.trace, r.rank, r.ts_ns, r.dur_ns, h.name, r.marker,
            r.source = 'kineto' OR c.trace IS NOT NULL AS is_chosen
        FROM step_ranges AS r
        INNER JOIN host_events AS h
            ON h.trace = r.trace AND h.event_id = r.event_id AND h.rank IS NOT DISTINCT FROM r.rank
        LEFT JOIN chosen AS c ON c.trace = r.trace AND c.rank IS NOT DISTINCT FROM r.rank
    ),

    named AS (
        SELECT
            trace, rank, ts_ns, dur_ns, name,
            CASE
                WHEN name LIKE 'execute!_%context!_%!_generation!_%' ESCAPE '!' THEN 1
                WHEN name LIKE 'step[%]' THEN 2
                WHEN name LIKE '%: run!_batch' ESCAPE '!' THEN 3
                ELSE 4
            END AS place
        FROM host_events
        WHERE dur_ns IS NOT NULL
            AND class <> 'device_annotation'
            AND (
                name LIKE 'execute!_%context!_%!_generation!_%' ESCAPE '!'
                OR name LIKE 'step[%]' AND substr(name, 6, 1) >= 'A'
                OR name LIKE '%: run!_batch' ESCAPE '!'
                OR name LIKE '$core.py:% step'
            )
    ),

    candidates AS (
        SELECT trace, rank, ts_ns, dur_ns, name, place
        FROM named
        UNION ALL
        SELECT trace, rank, ts_ns, dur_ns, name, 5
        FROM ranges
        WHERE marker = 'engine step' AND NOT is_chosen
        UNION ALL
        SELECT trace, rank, ts_ns, dur_ns, name, 0
        FROM ranges
        WHERE is_chosen
    ),

    -- Requests in prefill and in decode, where a name says how many; the mode of SGLang.
    read AS (
        SELECT
            trace, rank, ts_ns, dur_ns, place, lower(name) AS name,
            CASE WHEN name LIKE 'execute!_%context!_%!_generation!_%' ESCAPE '!' THEN
                TRY_CAST(split_part(split_part(name, 'context_', 2), '(', 1) AS BIGINT)
            END AS prefill_requests,
            CASE WHEN name LIKE 'execute!_%context!_%!_generation!_%' ESCAPE '!' THEN
                TRY_CAST(split_part(split_part(name, '_generation_', 2), '(', 1) AS BIGINT)
            END AS decode_requests,
            CASE WHEN name LIKE 'step[%]' THEN
                split_part(split_part(substr(upper(name), 6), ' ', 1), ']', 1)
            END AS mode
        FROM candidates
    ),

    judged AS (
        SELECT
            trace, rank, ts_ns, dur_ns, place,
            CASE
                WHEN prefill_requests > 0 THEN 'prefill'
                WHEN prefill_requests = 0 AND decode_requests > 0 THEN 'decode'
                WHEN prefill_requests IS NOT NULL THEN 'none'
                WHEN mode IN ('EXTEND', 'PREFILL', 'SPLIT_PREFILL', 'MIXED', 'DLLM_EXTEND') THEN 'prefill'
                WHEN mode IN ('DECODE', 'TARGET_VERIFY') THEN 'decode'
                WHEN mode IS NOT NULL THEN 'none'
                WHEN place = 0 AND (name LIKE '%prefill%' OR name LIKE '%extend%') THEN 'prefill'
                WHEN place = 0 AND (name LIKE '%decode%' OR name LIKE '%decoding%') THEN 'decode'
            END AS purpose
        FROM read
    )

SELECT trace, rank, ts_ns, dur_ns, place, purpose
FROM judged
WHERE place > 0 OR purpose IS NOT NULL
