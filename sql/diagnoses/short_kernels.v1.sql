-- @diagnosis short_kernels
-- @version  1
-- @summary  Many kernels are so short that beginning them, and the gaps between them, cost a good
--           part of what they do.
-- @profilers kineto nsys
-- @requires device_events _kernel_costs _cost_bounds
-- @reads    _idle_labels _wording _diagnosis_limits
-- @check    (SELECT count(*) FROM device_events WHERE source <> 'xla') > 0
--           | XLA fuses kernels itself, and its events are operations
-- @gain     all kernels below 10 us fused into others: for each of them what the shortest kernel of
--           its rank takes, at most 1 us, which bounds what beginning one takes; and of the part
--           kernel_gap of step_account (gaps up to 10 us before kernels that were launched) not
--           more gaps than there are such kernels, where kernel_gap is more than launch (else it
--           counts in launch_bound); the step loses of both what the rank loses that loses least
-- @shown    short_kernels_summary
-- @caveat   Idle time for which launches do not keep up is launch_bound, and not in the gain.
-- @source   step_account
WITH
    ranks AS (
        SELECT
            trace, rank, sum(short_per_step ORDER BY name) AS short_per_step,
            sum(short_ms ORDER BY name) AS short_ms,
            sum(kernels_per_step ORDER BY name) AS kernels_per_step
        FROM _kernel_costs
        GROUP BY trace, rank
    ),

    counts AS (
        SELECT
            trace, sum(short_per_step ORDER BY rank) AS short_per_step,
            sum(short_ms ORDER BY rank) AS short_ms,
            sum(kernels_per_step ORDER BY rank) AS kernels_per_step
        FROM ranks
        GROUP BY trace
    ),

    gaps AS (
        SELECT trace, sum(spans_per_step ORDER BY rank) AS gaps_per_step
        FROM _idle_labels
        WHERE part = 'kernel_gap' AND kind = 'all'
        GROUP BY trace
    ),

    bounds AS (
        SELECT
            f.trace, c.short_per_step / f.rank_count AS short_per_step, c.short_ms / f.rank_count AS short_ms,
            c.kernels_per_step / f.rank_count AS kernels_per_step, f.gain_ms AS fixed_ms,
            f.time_ms AS fixed_time_ms, CASE WHEN coalesce(h.own_ms, 0) < k.own_ms
                THEN coalesce(least(1, c.short_per_step / g.gaps_per_step), 0)
                ELSE 0
            END AS gap_share,
            coalesce(k.gain_ms, 0) AS gap_ms, coalesce(k.time_ms, 0) AS gap_time_ms,
            coalesce(k.own_ms, 0) AS gap_own_ms
        FROM _cost_bounds AS f
        INNER JOIN counts AS c ON c.trace = f.trace
        LEFT JOIN gaps AS g ON g.trace = f.trace
        LEFT JOIN _cost_bounds AS k
            ON k.trace = f.trace AND k.subject = 'part' AND k.key = 'kernel_gap'
        LEFT JOIN _cost_bounds AS h
            ON h.trace = f.trace AND h.subject = 'part' AND h.key = 'launch'
        WHERE f.subject = 'short'
    ),

    names AS (
        SELECT trace, name
        FROM _kernel_costs
        WHERE short_per_step > 0
        GROUP BY trace, name
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY sum(short_per_step ORDER BY rank) DESC, name
        ) = 1
    )

SELECT
    b.trace,
    printf(
        '%.0f of %.0f kernels %s take less than 10 us (%.1f us on average, %.3f ms of it), and %.3f ms are gaps between kernels that were launched; most of them are %s',
        b.short_per_step, b.kernels_per_step, w.of_what, 1e3 * b.short_ms / b.short_per_step, b.short_ms,
        b.gap_own_ms, left(n.name, 80)
    ) AS finding,
    {kernel: n.name} AS "where",
    b.gap_share * b.gap_time_ms + b.fixed_time_ms AS time_per_step_ms,
    b.gap_share * b.gap_ms + b.fixed_ms AS gain_ms,
    [l.steps_limit] AS limits,
    'fuse them: torch.compile, fused or foreach optimizers (AdamW(fused=True)), fused norms and activations (Apex, Transformer Engine, Liger), larger batches; where they cannot be fused, CUDA graphs make the gaps shorter'
        AS advice,
    'SELECT rank, name, short_per_step, short_ms FROM _kernel_costs WHERE trace = {trace} AND short_per_step > 0 ORDER BY short_ms DESC LIMIT 20'
        AS evidence
FROM bounds AS b
INNER JOIN names AS n ON n.trace = b.trace
INNER JOIN _wording AS w ON w.trace = b.trace
INNER JOIN _diagnosis_limits AS l ON l.trace = b.trace
WHERE b.gap_share * b.gap_ms + b.fixed_ms > 0
