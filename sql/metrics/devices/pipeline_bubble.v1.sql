-- @metric   pipeline_bubble
-- @version  1
-- @area     devices
-- @summary  Share of step time in which a device neither computes nor communicates, waiting in send
--           and receive included.
-- @grain    trace
-- @nvtx     partial
-- @requires device_events
-- @reads    _bubbles cards _device_counts
-- @value    bubble_ratio
-- @check    (SELECT count(*) FROM _device_counts WHERE class = 'other' AND nameless_events > 0) = 0
--           | the names of some kernels are lost, and with them whether they compute or communicate
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   bubble_ratio DOUBLE value ratio lower | 1 - |compute ∪ whole CUDA graphs ∪ comm other
--           than send/recv| / step; mean over the steps of a rank, then over ranks. Where ranges
--           mark stages (method), the work launched outside of them is no time of the pipeline and
--           is taken off the step.
-- @column   bubble_time_ms DOUBLE value ms | Bubble summed over ranks and steps.
-- @column   total_time_ms DOUBLE value ms | Step time summed over ranks; by method stages without
--           the work outside of the stages.
-- @column   method VARCHAR value - | steps, or window where the trace has no steps; stages where
--           ranges on the host mark the stages of the pipeline (stage 0, pipeline_stage, PP:0F1).
-- @column   expected_ratio DOUBLE value ratio | (p - 1) / (m + p - 1) of the card: p stages, m
--           micro-batches.
-- @column   per_rank MAP value ratio | Bubble of each rank.
-- @warn     (SELECT max(pp) FROM cards) = 1
--           | the card states one pipeline stage (pp = 1): there is no pipeline, and this is the
--           idle time of the devices
-- @caveat   Device work is clipped to the host interval of a step: work that runs after its step
--           ended counts for the next one.
-- @source   metrics 2.E pipeline_bubble_ratio (defect D44: host operators are not busy time)
WITH
    plans AS (
        SELECT trace, max(CAST(pp - 1 AS DOUBLE) / nullif(pp_mb + pp - 1, 0)) AS expected_ratio
        FROM cards
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace,
            method,
            avg(bubble_ratio ORDER BY rank) AS bubble_ratio,
            sum(bubble_ns ORDER BY rank) / 1e6 AS bubble_time_ms,
            sum(step_ns) / 1e6 AS total_time_ms,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(bubble_ratio ORDER BY rank))
                AS per_rank
        FROM _bubbles
        GROUP BY trace, method
    )

SELECT
    t.trace, t.bubble_ratio, t.bubble_time_ms, t.total_time_ms, t.method, p.expected_ratio,
    t.per_rank
FROM totals AS t
LEFT JOIN plans AS p ON p.trace = t.trace
ORDER BY t.trace
