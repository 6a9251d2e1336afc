-- @view     _kernel_costs
-- @summary  Kernels of class compute by name on each rank, of those that start in a step that
--           counts: how many in a step, how long, and how much of that by what they lack.
-- @materialize session
-- @partition rank
-- @requires _kernel_shapes _account_windows _account_shares
-- @caveat   Of one step and one device, as _rank_account; kernels at the same time count each.
--           short: of less than 10 us. few: of at least 10 us with blocks for less than half of the
--           multiprocessors; low_ms: of those the time x the share of multiprocessors without a
--           block. low_coverage: their mean share with one, by time.
WITH
    kernels AS (
        SELECT
            k.trace, k.rank, k.name, k.dur_ns, k.flops,
            coalesce(k.blocks / k.sm_count, k.blocks_per_sm) AS coverage
        FROM _kernel_shapes AS k
        ASOF INNER JOIN _account_windows AS w
            ON w.trace = k.trace AND w.rank = k.rank AND w.start_ns <= k.ts_ns
        WHERE k.class = 'compute' AND k.dur_ns > 0 AND w.is_counted AND k.ts_ns < w.end_ns
    ),

    sums AS (
        SELECT
            trace, rank, name, count(*) AS kernel_count, sum(dur_ns) AS dur_ns,
            min(dur_ns) AS least_ns, sum(flops) AS flops,
            sum(dur_ns) FILTER (WHERE flops > 0) AS flops_ns,
            count(*) FILTER (WHERE dur_ns < 10000) AS short_count,
            coalesce(sum(dur_ns) FILTER (WHERE dur_ns < 10000), 0) AS short_ns,
            coalesce(sum(dur_ns) FILTER (WHERE coverage < 0.5 AND dur_ns >= 10000), 0) AS few_ns,
            count(*) FILTER (WHERE coverage < 0.5 AND dur_ns >= 10000) AS few_count,
            coalesce(
                CAST(
                    sum(CAST(round(dur_ns * (1 - coverage)) AS BIGINT))
                        FILTER (WHERE coverage < 0.5 AND dur_ns >= 10000)
                    AS DOUBLE
                ), 0
            ) AS low_ns,
            coalesce(sum(dur_ns) FILTER (WHERE coverage IS NOT NULL), 0) AS known_ns
        FROM kernels
        GROUP BY trace, rank, name
    )

SELECT
    s.trace, s.rank, s.name, CAST(s.kernel_count AS DOUBLE) / w.share_count AS kernels_per_step,
    s.dur_ns / 1e6 / w.share_count AS time_ms, s.least_ns, s.flops / s.flops_ns * 1e9 AS flops_per_s,
    s.flops / w.share_count AS flops_per_step, s.flops_ns / 1e6 / w.share_count AS flops_ms,
    CAST(s.short_count AS DOUBLE) / w.share_count AS short_per_step,
    s.short_ns / 1e6 / w.share_count AS short_ms,
    CAST(s.few_count AS DOUBLE) / w.share_count AS few_per_step,
    s.few_ns / 1e6 / w.share_count AS few_ms,
    s.low_ns / 1e6 / w.share_count AS low_ms, 1 - s.low_ns / nullif(s.few_ns, 0) AS low_coverage,
    s.known_ns / 1e6 / w.share_count AS known_ms
FROM sums AS s
INNER JOIN _account_shares AS w ON w.trace = s.trace AND w.rank = s.rank
