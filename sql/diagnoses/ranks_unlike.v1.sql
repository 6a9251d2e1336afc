-- @diagnosis ranks_unlike
-- @version  1
-- @summary  Ranks that should do the same run other kernels, or another number of them.
-- @profilers kineto nsys xla
-- @requires kernel_times
-- @reads    steps cards process_groups collectives ranks
-- @param    unlike_count_ratio DOUBLE 0.1 | A rank is unlike the others if its number of compute
--           kernels in a step is off their median by more than this share of it, and by more than
--           one.
-- @param    unlike_time_ratio DOUBLE 0.2 | Likewise if more than this share of its compute time is
--           in kernels, by name, that at most half of the others run.
-- @gain     none: what it costs is in the compute of those ranks, and in the waiting for them
-- @shown    kernel_summary_by_rank
-- @check    (SELECT count(DISTINCT rank) FROM kernel_times WHERE class = 'compute') > 1
--           | fewer than two ranks have kernels
-- @caveat   Compared are the ranks of one stage of the pipeline: its place in the groups of the
--           dimension pp, else by the card with stages of neighbouring ranks, else all. Parameters
--           are in no trace.
-- @source   users_ask B (ranks that run other models)
WITH
    -- The place of each rank in the groups of its pipeline, from 1 on.
    grouped_stages AS (
        SELECT trace, rank, min(place) AS stage
        FROM (
            SELECT trace, unnest(ranks) AS rank, unnest(range(1, len(ranks) + 1)) AS place
            FROM process_groups
            WHERE dim = 'pp' AND group_size > 1 AND ranks IS NOT NULL
        )
        GROUP BY trace, rank
    ),

    plans AS (
        SELECT c.trace, max(c.pp) AS pp, max(coalesce(r.world_size, c.total_count)) AS world_size
        FROM cards AS c
        LEFT JOIN ranks AS r ON r.trace = c.trace
        WHERE c.pp > 1
        GROUP BY c.trace
    ),

    step_counts AS (
        SELECT trace, rank, count(*) AS step_count
        FROM steps
        GROUP BY trace, rank
    ),

    names AS (
        SELECT
            k.trace, k.rank, k.name, coalesce(g.stage, k.rank * p.pp // p.world_size, 0) AS stage,
            sum(k.events) AS events, sum(k.dur_ns) AS dur_ns
        FROM kernel_times AS k
        LEFT JOIN grouped_stages AS g ON g.trace = k.trace AND g.rank = k.rank
        LEFT JOIN plans AS p ON p.trace = k.trace
        WHERE k.class = 'compute' AND k.rank IS NOT NULL
        GROUP BY ALL
    ),

    shared AS (
        SELECT
            trace, rank, stage, events, dur_ns,
            count(*) OVER (PARTITION BY trace, stage, name) AS name_ranks
        FROM names
    ),

    sizes AS (
        SELECT trace, stage, count(DISTINCT rank) AS rank_count
        FROM names
        GROUP BY trace, stage
    ),

    ranks_seen AS (
        SELECT
            s.trace, s.rank, s.stage, z.rank_count,
            sum(s.events) / max(coalesce(c.step_count, 1)) AS kernels,
            coalesce(sum(s.dur_ns) FILTER (WHERE 2 * (s.name_ranks - 1) <= z.rank_count - 1), 0)
                / nullif(sum(s.dur_ns), 0) AS foreign_ratio,
            max(c.step_count) AS step_count
        FROM shared AS s
        INNER JOIN sizes AS z ON z.trace = s.trace AND z.stage = s.stage
        LEFT JOIN step_counts AS c ON c.trace = s.trace AND c.rank = s.rank
        WHERE z.rank_count > 1
        GROUP BY s.trace, s.rank, s.stage, z.rank_count
    ),

    compared AS (
        SELECT
            trace, rank, stage, rank_count, kernels, foreign_ratio, step_count,
            median(kernels) OVER of_stage AS median_kernels,
            median(step_count) OVER of_stage AS median_steps
        FROM ranks_seen
        WINDOW of_stage AS (PARTITION BY trace, stage)
    ),

    unlike AS (
        SELECT
            trace, rank, stage, rank_count, kernels, median_kernels, foreign_ratio, step_count,
            median_steps,
            CASE
                WHEN abs(kernels - median_kernels) > greatest($unlike_count_ratio * median_kernels, 1)
                    THEN 'count'
                WHEN foreign_ratio > $unlike_time_ratio THEN 'names'
            END AS how
        FROM compared
        WHERE how IS NOT NULL
    ),

    -- One for each stage and kind: the rank that is most unlike, and the others.
    worst AS (
        SELECT
            trace, stage, how, rank, rank_count, kernels, median_kernels, foreign_ratio, step_count,
            median_steps, array_agg(rank) OVER (
                PARTITION BY trace, stage, how ORDER BY rank
                ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
            ) AS unlike_ranks
        FROM unlike
        QUALIFY row_number() OVER (
            PARTITION BY trace, stage, how
            ORDER BY
                CASE how WHEN 'count' THEN abs(kernels - median_kernels) / median_kernels
                    ELSE foreign_ratio END DESC, rank
        ) = 1
    ),

    sends AS (
        SELECT DISTINCT trace
        FROM collectives
        WHERE collective IN ('send', 'recv', 'send_recv')
    )

SELECT
    w.trace,
    CASE w.how
        WHEN 'count'
            THEN printf(
                'rank %d runs %.1f compute kernels%s, the median of its %d ranks %.1f', w.rank, w.kernels,
                CASE WHEN w.step_count IS NULL THEN '' ELSE ' in a step' END, w.rank_count, w.median_kernels
            )
        ELSE printf(
            'rank %d spends %.1f %% of its compute in kernels that at most half of the other ranks run', w.rank,
            100 * w.foreign_ratio
        )
    END
        || CASE WHEN len(w.unlike_ranks) > 1
            THEN printf(
                '; unlike are ranks %s%s',
                array_to_string(w.unlike_ranks[:8], ', '),
                CASE WHEN len(w.unlike_ranks) > 8 THEN ', ...' ELSE '' END
            )
            ELSE ''
        END AS finding,
    {rank: w.rank} AS "where",
    CAST(NULL AS DOUBLE) AS time_per_step_ms,
    CAST(NULL AS DOUBLE) AS gain_ms,
    [
        CASE WHEN w.step_count IS NULL THEN 'the trace marks no steps: recordings of unlike length look so' END,
        CASE
            WHEN w.step_count <> w.median_steps
                THEN printf('its recording has %d steps, the median %g', w.step_count, w.median_steps)
            WHEN w.step_count = 1 THEN 'one step was recorded'
        END,
        CASE
            WHEN w.stage = 0 AND s.trace IS NOT NULL
                THEN 'stages of a pipeline, if it is one, are not known: ranks of other stages differ'
        END
    ] AS limits,
    CASE w.how
        WHEN 'count'
            THEN 'if these ranks should run one model, compare its code paths and versions: uneven sharding (embedding tables, experts, layers of stages), work on one rank alone (logging, checkpoints, metrics), a graph break or recompilation (TORCH_LOGS=recompiles,graph_breaks), another batch'
        ELSE 'if these ranks should run one model, compare versions of libraries and devices; autotuning that ends differently on each rank (torch.backends.cudnn.benchmark, torch.compile max-autotune) is evened out by one cache for all (TORCHINDUCTOR_CACHE_DIR, torch.backends.cudnn.deterministic)'
    END AS advice,
    'SELECT name, rank_count, by_rank FROM (SELECT name, count(DISTINCT rank) AS rank_count, map_from_entries(list_sort(array_agg(DISTINCT (rank, events)))) AS by_rank, min(events) AS least, max(events) AS most FROM (SELECT name, rank, sum(events) AS events FROM kernel_times WHERE trace = {trace} AND class = ''compute'' GROUP BY name, rank) GROUP BY name) WHERE least <> most OR rank_count < '
        || w.rank_count || ' ORDER BY rank_count, name' AS evidence
FROM worst AS w
LEFT JOIN sends AS s ON s.trace = w.trace
QUALIFY row_number() OVER (PARTITION BY w.trace ORDER BY w.how, len(w.unlike_ranks) DESC, w.rank) <= 3
