-- @view     _bubbles
-- @summary  Bubble of each rank: step time in which its devices neither compute nor communicate,
--           waiting in send and receive included.
-- @materialize session
-- @requires _rank_bubbles
-- @caveat   Where ranges mark the stages of a pipeline, what the devices of a rank do for anything
--           else (an optimizer) is taken off the step: it is no time of the pipeline.
SELECT
    trace, rank,
    CASE WHEN bool_or(is_staged) OVER (PARTITION BY trace) THEN 'stages' ELSE method END AS method,
    bubble_ratio, bubble_ns, step_ns
FROM _rank_bubbles
