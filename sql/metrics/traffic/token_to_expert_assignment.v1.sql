-- @metric   token_to_expert_assignment
-- @version  1
-- @area     traffic
-- @summary  How evenly the gates of a mixture of experts spread tokens over the experts: the
--           entropy of their shares / that of equal shares.
-- @grain    trace
-- @profilers bench
-- @alias    tokenToExpertAssignment-group_12
-- @requires expert_loads
-- @value    normalized_entropy_ratio
-- @null     there is one expert, no token was sent to any, or in every step a load is unusable
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   normalized_entropy_ratio DOUBLE value ratio higher | entropy_bits / log2(experts): 1
--           where all have the same load, 0 where one has all.
-- @column   entropy_bits DOUBLE value - | - sum of p log2 p over the experts with load, p the share
--           of an expert.
-- @column   cv DOUBLE value ratio lower | Standard deviation of the loads (over n) / their mean.
-- @column   max_min_ratio DOUBLE value ratio lower | Greatest load / least load that is not 0.
-- @column   total_tokens BIGINT value tokens | Tokens sent to experts: one for each expert that a
--           token was sent to.
-- @column   num_experts BIGINT value count | Experts, idle ones included; a step with an unusable
--           load is in no figure.
-- @column   total_steps BIGINT value count | Steps with loads, of all files.
-- @column   totals LIST value tokens | Tokens of each expert.
-- @column   normalized LIST value - | Share of each expert, 0 to 1.
-- @column   layer_entropy_ratio DOUBLE value ratio higher | The same of each layer by itself, mean
--           over the layers; NULL where the logs do not tell layers apart.
-- @column   per_rank LIST value - | By the rank whose log it is (NULL where the logs name none):
--           tokens, totals of the experts that it logs, normalized_entropy_ratio of them.
-- @caveat   Experts of the same number in different layers are different experts: summed over the
--           layers, imbalance of single layers may cancel; see layer_entropy_ratio.
-- @source   metrics 2.J token_to_expert_assignment
WITH
    -- A step of which one load is unusable would miss an expert.
    whole_steps AS (
        SELECT trace, rank, source_id, step, layer, expert, load
        FROM expert_loads
        QUALIFY bool_and(load IS NOT NULL) OVER (
            PARTITION BY trace, source_id, step, layer
        )
    ),

    layer_loads AS (
        SELECT trace, layer, expert, sum(load) AS load
        FROM whole_steps
        GROUP BY trace, layer, expert
    ),

    loads AS (
        SELECT trace, expert, TRY_CAST(sum(load) AS BIGINT) AS load
        FROM layer_loads
        GROUP BY trace, expert
    ),

    shares AS (
        SELECT
            trace, expert, load,
            load / nullif(CAST(sum(load) OVER (PARTITION BY trace) AS DOUBLE), 0) AS share
        FROM loads
    ),

    layer_shares AS (
        SELECT
            trace, layer, expert,
            load / nullif(CAST(sum(load) OVER (PARTITION BY trace, layer) AS DOUBLE), 0) AS share
        FROM layer_loads
        WHERE layer IS NOT NULL
    ),

    layer_entropies AS (
        SELECT
            trace, layer,
            sum(CASE WHEN share > 0 THEN -share * log2(share) WHEN share = 0 THEN 0.0 END ORDER BY expert)
                / nullif(log2(count(*)), 0) AS entropy_ratio
        FROM layer_shares
        GROUP BY trace, layer
    ),

    layer_means AS (
        SELECT trace, avg(entropy_ratio ORDER BY layer) AS entropy_ratio
        FROM layer_entropies
        GROUP BY trace
    ),

    rank_loads AS (
        SELECT trace, rank, expert, sum(load) AS load
        FROM whole_steps
        GROUP BY trace, rank, expert
    ),

    rank_shares AS (
        SELECT
            trace, rank, expert, load,
            load / nullif(CAST(sum(load) OVER (PARTITION BY trace, rank) AS DOUBLE), 0) AS share
        FROM rank_loads
    ),

    rank_spreads AS (
        SELECT
            trace, rank,
            TRY_CAST(sum(load) AS BIGINT) AS tokens,
            array_agg(TRY_CAST(load AS BIGINT) ORDER BY expert) AS totals,
            sum(CASE WHEN share > 0 THEN -share * log2(share) WHEN share = 0 THEN 0.0 END ORDER BY expert)
                / nullif(log2(count(*)), 0) AS entropy_ratio
        FROM rank_shares
        GROUP BY trace, rank
    ),

    rank_lists AS (
        SELECT
            trace,
            array_agg({rank: rank, tokens: tokens, totals: totals,
                normalized_entropy_ratio: entropy_ratio} ORDER BY rank) AS per_rank
        FROM rank_spreads
        GROUP BY trace
    ),

    steps_seen AS (
        SELECT trace, count(DISTINCT {source_id: source_id, step: step}) AS step_count
        FROM whole_steps
        GROUP BY trace
    ),

    spreads AS (
        SELECT
            trace,
            sum(CASE WHEN share > 0 THEN -share * log2(share) WHEN share = 0 THEN 0.0 END ORDER BY expert)
                AS entropy_bits,
            stddev_pop(load ORDER BY expert) / nullif(avg(load ORDER BY expert), 0) AS cv,
            max(load) / nullif(CAST(min(load) FILTER (WHERE load > 0) AS DOUBLE), 0) AS max_min_ratio,
            TRY_CAST(sum(load) AS BIGINT) AS total_tokens,
            count(*) AS num_experts,
            array_agg(load ORDER BY expert) AS totals,
            array_agg(share ORDER BY expert) AS normalized
        FROM shares
        GROUP BY trace
    )

SELECT
    s.trace,
    s.entropy_bits / nullif(log2(s.num_experts), 0) AS normalized_entropy_ratio,
    s.entropy_bits, s.cv, s.max_min_ratio, s.total_tokens, s.num_experts,
    t.step_count AS total_steps, s.totals, s.normalized,
    l.entropy_ratio AS layer_entropy_ratio,
    r.per_rank
FROM spreads AS s
INNER JOIN rank_lists AS r ON r.trace = s.trace
INNER JOIN steps_seen AS t ON t.trace = s.trace
LEFT JOIN layer_means AS l ON l.trace = s.trace
ORDER BY s.trace
