-- @diagnosis slow_rank
-- @version  1
-- @summary  A rank computes longer than the others, and they wait for it.
-- @profilers kineto nsys xla
-- @requires _rank_account
-- @reads    _wording _diagnosis_limits _match_doubts kernel_times
-- @gain     the most that another rank waits, exposed, for this one, directly or for one that waits
--           for it, and transfers, exposed, beyond what this one does; not more than its compute is
--           longer than the median of the others (than the mean, where it has more work, which
--           would be spread over all), nor than any other rank so waits and transfers, for
--           whomever: a rank that waits less holds the step
-- @shown    straggler_by_rank
-- @param    alike_ratio DOUBLE 0.8 | Ranks whose compute is longer by at least this share of that
--           of the slowest are one finding, as the ranks of a stage.
-- @check    (SELECT count(DISTINCT rank) FROM _rank_account) > 1 | a single rank was ingested
-- @check    (SELECT count(*) FROM _rank_account WHERE part = 'compute') > 0
--           | no compute on a device was recorded
-- @check    (SELECT count(*) FROM _rank_account WHERE part IN ('wait', 'transfer')) > 0
--           | no call of two ranks or more is matched over them
-- @caveat   Ranks that wait for a slow rank and are late for that alone are never named. Why it
--           is slow is told by its kernels over the whole trace: more of them, all of them longer,
--           or some.
-- @source   waiting goes back as in straggler_by_rank; compute as in step_account
WITH
    parts AS (
        SELECT
            trace, rank,
            coalesce(sum(time_ms) FILTER (WHERE part = 'compute'), 0) AS compute_ms,
            coalesce(sum(time_ms) FILTER (WHERE part = 'transfer'), 0) AS transfer_ms,
            coalesce(
                sum(time_ms ORDER BY part, for_rank) FILTER (WHERE part IN ('wait', 'unmatched')), 0
            ) AS slack_ms
        FROM _rank_account
        GROUP BY trace, rank
    ),

    waits AS (
        SELECT trace, rank, cause_rank, sum(time_ms ORDER BY for_rank) AS wait_ms
        FROM _rank_account
        WHERE part = 'wait' AND cause_rank <> rank
        GROUP BY trace, rank, cause_rank
    ),

    -- Of those that others wait for: how long the others compute.
    medians AS (
        SELECT
            p.trace, p.rank, median(o.compute_ms) AS median_ms,
            (sum(o.compute_ms ORDER BY o.rank) + any_value(p.compute_ms)) / (count(*) + 1) AS mean_ms
        FROM parts AS p
        INNER JOIN parts AS o ON o.trace = p.trace AND o.rank <> p.rank
        WHERE EXISTS (SELECT 1 FROM waits AS w WHERE w.trace = p.trace AND w.cause_rank = p.rank)
        GROUP BY p.trace, p.rank
    ),

    causes AS (
        SELECT p.trace, p.rank, p.compute_ms, p.transfer_ms, p.compute_ms - m.median_ms AS excess_ms,
            p.compute_ms - m.mean_ms AS above_mean_ms
        FROM parts AS p
        INNER JOIN medians AS m ON m.trace = p.trace AND m.rank = p.rank
        WHERE p.compute_ms > m.median_ms
    ),

    -- Ranks about as slow as the slowest are one finding, named after it.
    slow AS (
        SELECT
            trace, rank, compute_ms, transfer_ms, excess_ms, above_mean_ms,
            CASE
                WHEN excess_ms >= $alike_ratio * max(excess_ms) OVER (PARTITION BY trace)
                    THEN first_value(rank) OVER (PARTITION BY trace ORDER BY excess_ms DESC, rank)
                ELSE rank
            END AS named_rank
        FROM causes
    ),

    sets AS (
        SELECT
            trace, named_rank, array_agg(rank ORDER BY rank) AS ranks,
            max(compute_ms) AS compute_ms, max(excess_ms) AS excess_ms,
            max(above_mean_ms) AS above_mean_ms, min(transfer_ms) AS transfer_ms
        FROM slow
        GROUP BY trace, named_rank
    ),

    waited AS (
        SELECT s.trace, s.named_rank, w.rank, sum(w.wait_ms ORDER BY w.cause_rank) AS wait_ms
        FROM slow AS s
        INNER JOIN waits AS w ON w.trace = s.trace AND w.cause_rank = s.rank
        GROUP BY s.trace, s.named_rank, w.rank
    ),

    -- While the slow rank still computes, the others expose transfer that it hides. A step cannot
    -- become shorter than what any other rank does without waiting.
    lost AS (
        SELECT
            s.trace, s.named_rank, s.ranks, s.compute_ms, s.excess_ms, s.above_mean_ms,
            count(w.rank) AS rank_count,
            max(w.wait_ms + greatest(p.transfer_ms - s.transfer_ms, 0)) AS most_ms,
            min(p.slack_ms + greatest(p.transfer_ms - s.transfer_ms, 0)) AS least_ms,
            arg_min(
                p.rank,
                {least_ms: p.slack_ms + greatest(p.transfer_ms - s.transfer_ms, 0), rank: p.rank}
            ) AS next_rank
        FROM sets AS s
        INNER JOIN parts AS p ON p.trace = s.trace AND NOT list_contains(s.ranks, p.rank)
        LEFT JOIN waited AS w
            ON w.trace = s.trace AND w.named_rank = s.named_rank AND w.rank = p.rank
        GROUP BY s.trace, s.named_rank, s.ranks, s.compute_ms, s.excess_ms, s.above_mean_ms
    ),

    found AS (
        SELECT
            trace, named_rank, ranks, compute_ms, excess_ms, above_mean_ms, rank_count,
            most_ms, least(most_ms, least_ms, excess_ms) AS gain_ms,
            CASE WHEN least_ms < 0.9 * least(most_ms, excess_ms) THEN next_rank END AS next_rank
        FROM lost
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY gain_ms DESC, named_rank) <= 3
    ),

    kernels AS (
        SELECT trace, rank, name, sum(events) AS events, CAST(sum(dur_ns) AS DOUBLE) AS dur_ns
        FROM kernel_times
        WHERE class = 'compute' AND rank IS NOT NULL
        GROUP BY trace, rank, name
    ),

    -- What the others spend on a kernel where they have it, and how often.
    typical AS (
        SELECT
            f.trace, f.named_rank, k.name, median(k.events) AS events, median(k.dur_ns) AS dur_ns
        FROM found AS f
        INNER JOIN kernels AS k ON k.trace = f.trace AND k.rank <> f.named_rank
        GROUP BY f.trace, f.named_rank, k.name
    ),

    compared AS (
        SELECT
            f.trace, f.named_rank, k.name, k.events, k.dur_ns,
            coalesce(t.events, 0) AS typical_events, coalesce(t.dur_ns, 0) AS typical_ns,
            k.dur_ns - coalesce(t.dur_ns, 0) AS longer_ns,
            f.excess_ms / (f.compute_ms - f.excess_ms) AS excess_ratio
        FROM found AS f
        INNER JOIN kernels AS k ON k.trace = f.trace AND k.rank = f.named_rank
        LEFT JOIN typical AS t
            ON t.trace = f.trace
            AND t.named_rank = f.named_rank
            AND t.name IS NOT DISTINCT FROM k.name
    ),

    reasons AS (
        SELECT
            trace, named_rank, sum(events) / nullif(sum(typical_events), 0) AS events_ratio,
            sum(typical_ns ORDER BY name) FILTER (
                WHERE longer_ns >= excess_ratio / 2 * typical_ns
            ) / nullif(sum(typical_ns ORDER BY name), 0) AS longer_ratio,
            arg_min(name, {longer_ns: -longer_ns, name: name}) AS kernel
        FROM compared
        GROUP BY trace, named_rank
    ),

    judged AS (
        SELECT
            f.trace, f.named_rank, f.ranks, f.compute_ms, f.excess_ms, f.rank_count, f.most_ms,
            -- Uneven work is spread, a slow device is made like the others.
            CASE
                WHEN r.events_ratio >= 1.02 OR r.longer_ratio < 0.9 THEN least(f.gain_ms, f.above_mean_ms)
                ELSE f.gain_ms
            END AS gain_ms,
            f.next_rank, r.kernel, r.events_ratio,
            CASE
                WHEN r.events_ratio >= 1.02 THEN 'more'
                WHEN r.longer_ratio < 0.9 THEN 'some'
                WHEN r.longer_ratio >= 0.9 THEN 'all'
            END AS how
        FROM found AS f
        LEFT JOIN reasons AS r ON r.trace = f.trace AND r.named_rank = f.named_rank
    )

SELECT
    j.trace,
    printf(
        '%s %s %.1f %% longer than the median of the others (%.3f ms against %.3f ms %s)%s; %s for it%s',
        CASE
            WHEN len(j.ranks) = 1 THEN 'rank ' || j.named_rank
            WHEN len(j.ranks) > 8 THEN len(j.ranks) || ' ranks, most rank ' || j.named_rank || ','
            ELSE 'ranks ' || array_to_string(j.ranks, ', ')
        END,
        CASE WHEN len(j.ranks) = 1 THEN 'computes' ELSE 'compute up to' END,
        100 * j.excess_ms / nullif(j.compute_ms - j.excess_ms, 0), j.compute_ms,
        j.compute_ms - j.excess_ms, w.of_what,
        CASE j.how
            WHEN 'more' THEN printf(', with %.0f %% more kernels', 100 * (j.events_ratio - 1))
            WHEN 'all' THEN ', in all kernels alike'
            WHEN 'some' THEN ', in some kernels only, most in ' || left(j.kernel, 60)
            ELSE ''
        END,
        CASE WHEN j.rank_count = 1 THEN 'one other waits' ELSE j.rank_count || ' others wait' END,
        CASE WHEN j.next_rank IS NULL THEN '' ELSE '; without it rank ' || j.next_rank || ' holds the step' END
    ) AS finding,
    {rank: j.named_rank, kernel: CASE WHEN j.how = 'some' THEN j.kernel END} AS "where",
    j.most_ms AS time_per_step_ms,
    j.gain_ms,
    [l.steps_limit, l.clocks_limit, l.matches_limit, doubts.doubts_limit] AS limits,
    CASE
        WHEN j.how = 'more'
            THEN 'it has more work: balance the layers over the pipeline stages (Megatron: --decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers, --account-for-embedding-in-pipeline-split), or the micro-batches over the ranks'
        WHEN j.how = 'some'
            THEN 'its work is larger, not its device slower: even out the tokens of its experts (Megatron: --moe-router-load-balancing-type, --moe-aux-loss-coeff, --moe-expert-capacity-factor), the sequence lengths of its batch, or the layers of its stage'
        WHEN j.how = 'all' AND len(j.ranks) > 1
            THEN 'several ranks alike: a pipeline stage or group of experts with more work, else a node whose devices are slower (nvidia-smi -q -d CLOCK,PERFORMANCE,POWER there)'
        ELSE 'the device is slower or shared: look at clocks and why they are low, power and temperature (nvidia-smi -q -d CLOCK,PERFORMANCE,POWER,TEMPERATURE), and at other processes on it; if it stays, replace it. If its tensors are larger, it is uneven work'
    END AS advice,
    'SELECT rank, part, for_rank, cause_rank, time_ms, hidden_ms FROM _rank_account WHERE trace = {trace} AND part IN (''compute'', ''transfer'', ''wait'') ORDER BY ALL'
        AS evidence
FROM judged AS j
INNER JOIN _wording AS w ON w.trace = j.trace
INNER JOIN _diagnosis_limits AS l ON l.trace = j.trace
LEFT JOIN _match_doubts AS doubts ON doubts.trace = j.trace
WHERE j.gain_ms > 0
