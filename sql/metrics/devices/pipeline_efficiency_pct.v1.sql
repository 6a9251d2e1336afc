-- @metric   pipeline_efficiency_pct
-- @version  1
-- @area     devices
-- @summary  Share of step time in which a device computes or communicates, waiting in send and
--           receive left out: what pipeline_bubble leaves.
-- @grain    trace
-- @nvtx     partial
-- @requires device_events
-- @reads    _bubbles cards _device_counts
-- @value    pipeline_efficiency_pct
-- @check    (SELECT count(*) FROM _device_counts WHERE class = 'other' AND nameless_events > 0) = 0
--           | the names of some kernels are lost, and with them whether they compute or communicate
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   pipeline_efficiency_pct DOUBLE value pct higher | 100 x (1 - bubble_ratio of
--           pipeline_bubble): mean over the steps of a rank, then over ranks.
-- @column   worst_rank_pct DOUBLE value pct higher | Least share over ranks.
-- @column   method VARCHAR value - | steps, window or stages, as pipeline_bubble says.
-- @column   expected_pct DOUBLE value pct | 100 x m / (m + p - 1) of the card: p stages, m
--           micro-batches.
-- @column   per_rank MAP value pct | Share of each rank.
-- @warn     coalesce((SELECT max(pp) FROM cards), 1) = 1
--           | no card states a pipeline: it is the share of step time that the devices work, and
--           the bubble is no matter of stages
-- @source   metrics 2.F pipeline_efficiency_pct (defect D44)
WITH
    plans AS (
        SELECT trace, max(100.0 * pp_mb / nullif(pp_mb + pp - 1, 0)) AS expected_pct
        FROM cards
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace,
            method,
            100.0 * (1.0 - avg(bubble_ratio ORDER BY rank)) AS pipeline_efficiency_pct,
            100.0 * (1.0 - max(bubble_ratio)) AS worst_rank_pct,
            map(
                array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
                array_agg(100.0 * (1.0 - bubble_ratio) ORDER BY rank)
            ) AS per_rank
        FROM _bubbles
        GROUP BY trace, method
    )

SELECT t.trace, t.pipeline_efficiency_pct, t.worst_rank_pct, t.method, p.expected_pct, t.per_rank
FROM totals AS t
LEFT JOIN plans AS p ON p.trace = t.trace
ORDER BY t.trace
