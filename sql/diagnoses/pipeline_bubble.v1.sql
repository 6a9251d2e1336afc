-- @diagnosis pipeline_bubble
-- @version  1
-- @summary  The stages of a pipeline wait for each other: its ranks neither compute nor communicate
--           beside sends and receives.
-- @profilers kineto nsys
-- @requires _bubbles _rank_account
-- @reads    _range_meanings process_groups cards steps _diagnosis_limits
-- @gain     bubble of the rank that has least of it, as in the metric pipeline_bubble: the step is
--           at least as long as what that rank does; of a rank not more than its exposed
--           communication and idle time, without data loading, launches and gaps between kernels
-- @shown    pipeline_bubble
-- @check    coalesce((SELECT max(pp) FROM cards), 2) > 1
--           | the card states one pipeline stage (pp = 1)
-- @check    (SELECT count(*) FROM cards WHERE pp > 1)
--           + (SELECT count(*) FROM process_groups WHERE dim = 'pp' AND group_size > 1)
--           + (SELECT count(*) FROM _range_meanings WHERE is_stage) > 0
--           | nothing says that there is a pipeline: no card with pp, no process group for it, no
--           range that marks a stage
-- @caveat   A stage that takes longer than the others is no bubble of its own rank: only what all
--           ranks lose is gained.
-- @source   metrics 2.E pipeline_bubble_ratio
WITH
    step_counts AS (
        SELECT trace, rank, count(*) AS step_count
        FROM steps
        WHERE dur_ns > 0
        GROUP BY trace, rank
    ),

    rooms AS (
        SELECT
            trace, rank, any_value(step_ms) AS step_ms,
            coalesce(
                sum(time_ms ORDER BY part, for_rank) FILTER (
                    WHERE part IN ('transfer', 'wait', 'unmatched', 'host', 'sync', 'unknown', 'other')
                ), 0
            ) AS room_ms
        FROM _rank_account
        GROUP BY trace, rank
    ),

    ranks AS (
        SELECT
            b.trace, b.rank, r.step_ms,
            least(
                b.bubble_ns / 1e6 / CASE WHEN b.method = 'window' THEN 1 ELSE coalesce(s.step_count, 1) END,
                r.room_ms
            ) AS bubble_ms
        FROM _bubbles AS b
        INNER JOIN rooms AS r ON r.trace = b.trace AND r.rank = b.rank
        LEFT JOIN step_counts AS s ON s.trace = b.trace AND s.rank = b.rank
    ),

    traces AS (
        SELECT
            trace, avg(step_ms ORDER BY rank) AS step_ms, avg(bubble_ms ORDER BY rank) AS mean_ms,
            min(bubble_ms) AS least_ms, max(bubble_ms) AS most_ms,
            arg_min(rank, {bubble_ms: bubble_ms, rank: rank}) AS least_rank,
            arg_min(rank, {bubble_ms: -bubble_ms, rank: rank}) AS most_rank
        FROM ranks
        GROUP BY trace
    ),

    -- Of several cards the one that leaves most, as in the metric.
    plans AS (
        SELECT
            trace,
            arg_max({pp: pp, pp_mb: pp_mb}, CAST(pp - 1 AS DOUBLE) / (pp_mb + pp - 1)) AS plan
        FROM cards
        WHERE pp > 1 AND pp_mb > 0
        GROUP BY trace
    )

SELECT
    t.trace,
    printf(
        'the ranks of the pipeline wait for its stages for %.3f ms of a step (%.1f %%): from %.3f ms on rank %d to %.3f ms on rank %d',
        t.mean_ms, 100 * t.mean_ms / nullif(t.step_ms, 0), t.least_ms, t.least_rank, t.most_ms,
        t.most_rank
    )
        || coalesce(printf(
            '; %d stages and %d micro-batches of the card leave %.1f %%', p.plan.pp, p.plan.pp_mb,
            100.0 * (p.plan.pp - 1) / (p.plan.pp_mb + p.plan.pp - 1)
        ), '') AS finding,
    {kind: 'send_recv'} AS "where",
    t.mean_ms AS time_per_step_ms,
    t.least_ms AS gain_ms,
    [l.steps_limit, l.launches_limit, l.ranks_limit] AS limits,
    'more micro-batches for each step, or a schedule with a smaller bubble: interleaved 1F1B (torch.distributed.pipelining ScheduleInterleaved1F1B, Megatron --num-layers-per-virtual-pipeline-stage, TorchTitan pipeline_parallel_schedule) or zero bubble (ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble); where the ranks differ much, even out the layers of the stages (embedding and output layer count too)'
        AS advice,
    'SELECT rank, method, bubble_ratio, bubble_ns, step_ns FROM _bubbles WHERE trace = {trace} ORDER BY rank'
        AS evidence
FROM traces AS t
INNER JOIN _diagnosis_limits AS l ON l.trace = t.trace
LEFT JOIN plans AS p ON p.trace = t.trace
WHERE t.least_ms > 0
