-- @metric   peak_memory_by_step
-- @version  1
-- @area     memory
-- @summary  Largest number of bytes allocated on a device during each step; the mean over steps of
--           the largest over ranks and devices.
-- @grain    trace
-- @profilers kineto memory
-- @reads    steps _memory_step_peaks _memory_sources _memory_reasons
-- @value    mean_step_peak_gib
-- @reason   (SELECT why FROM _memory_reasons WHERE what = 'levels')
--           | nothing recorded the levels of the memory of a device
-- @check    (SELECT count(*) FROM steps) > 0 | it needs steps, and this trace has none
-- @null     no step lies in the time of a memory recording
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   mean_step_peak_gib DOUBLE value gib lower | Mean over steps.
-- @column   max_step_peak_gib DOUBLE value gib lower | Highest step.
-- @column   min_step_peak_gib DOUBLE value gib lower | Lowest step.
-- @column   growth_gib DOUBLE value gib lower | Peak of the last step - peak of the first: what
--           stays above 0 leaks, or is cached.
-- @column   num_steps BIGINT value count | Steps that the recording reaches, by number.
-- @column   per_step LIST value - | Per step: the peak, and the rank and device that has it.
-- @caveat   A step that the recording holds only in part counts with what is there.
-- @source   metrics 2.G peak_memory_gib; seed 002 "maximum memory allocated during iteration"
WITH
    highest AS (
        SELECT trace, step, rank, device, ts_ns, peak_allocated_bytes
        FROM _memory_step_peaks
        QUALIFY
            row_number() OVER (
                PARTITION BY trace, step ORDER BY peak_allocated_bytes DESC, rank, device
            ) = 1
    ),

    placed AS (
        SELECT
            trace, step, rank, device, peak_allocated_bytes,
            row_number() OVER (PARTITION BY trace ORDER BY step) AS place,
            row_number() OVER (PARTITION BY trace ORDER BY step DESC) AS place_from_end
        FROM highest
    )

SELECT
    trace,
    avg(peak_allocated_bytes) / 1073741824 AS mean_step_peak_gib,
    max(peak_allocated_bytes) / 1073741824 AS max_step_peak_gib,
    min(peak_allocated_bytes) / 1073741824 AS min_step_peak_gib,
    (
        max(CASE WHEN place_from_end = 1 THEN peak_allocated_bytes END)
        - max(CASE WHEN place = 1 THEN peak_allocated_bytes END)
    ) / 1073741824 AS growth_gib,
    count(*) AS num_steps,
    array_agg(
        {
            step: step,
            rank: rank,
            device: device,
            peak_allocated_gib: peak_allocated_bytes / 1073741824
        }
        ORDER BY step
    ) AS per_step
FROM placed
GROUP BY trace
ORDER BY trace
