-- @diagnosis host_stalls
-- @version  1
-- @summary  Devices are idle while the host does other work than launching.
-- @profilers kineto nsys
-- @requires device_events launches _cost_bounds
-- @reads    _idle_labels _diagnosis_limits
-- @check    (SELECT count(*) FROM device_events WHERE source <> 'xla') > 0
--           | XLA launches whole programs, so that its device events have no launches of their own
-- @gain     the part host of step_account gone on all ranks: a rank loses that time, and of its
--           exposed waiting for another rank no more than that one loses; the step loses what the
--           rank loses that loses least
-- @shown    idle_causes
-- @caveat   What the step loses as the host of one rank alone is late is in late_rank, and not
--           here. A gap is host where more than 100 us of it pass before the launch call, no call
--           waits for the device and no data is loaded. What the host does without an operator is
--           Python or other code that the trace does not name.
-- @source   step_account
WITH
    totals AS (
        SELECT
            trace, sum(time_ms ORDER BY rank) AS time_ms,
            avg(spans_per_step ORDER BY rank) AS spans_per_step, max(longest_ms) AS longest_ms
        FROM _idle_labels
        WHERE part = 'host' AND kind = 'all'
        GROUP BY trace
    ),

    labels AS (
        SELECT trace, kind, name, sum(time_ms ORDER BY rank) AS time_ms
        FROM _idle_labels
        WHERE part = 'host'
            AND kind IN ('operator', 'range', 'phase')
            AND coalesce(name, '') NOT LIKE 'ProfilerStep#%'
        GROUP BY trace, kind, name
    ),

    shares AS (
        SELECT
            l.trace, l.kind, l.name, 100 * l.time_ms / t.time_ms AS share_pct,
            100 * sum(l.time_ms ORDER BY l.name) OVER (PARTITION BY l.trace, l.kind) / t.time_ms
                AS kind_pct,
            row_number() OVER (
                PARTITION BY l.trace, l.kind ORDER BY l.time_ms DESC, l.name
            ) AS place
        FROM labels AS l
        INNER JOIN totals AS t ON t.trace = l.trace
    ),

    said AS (
        SELECT
            trace,
            100 - coalesce(max(kind_pct) FILTER (WHERE kind = 'operator'), 0) AS without_pct,
            max(printf('%s (%.0f %%)', name, share_pct)) FILTER (WHERE kind = 'operator')
                AS operator_text,
            max(printf('%s (%.0f %%)', name, share_pct)) FILTER (WHERE kind = 'range')
                AS range_text,
            max(printf('%s (%.0f %%)', name, share_pct)) FILTER (WHERE kind = 'phase')
                AS phase_text,
            max(name) FILTER (WHERE kind = 'operator' AND share_pct >= 50) AS operator,
            max(name) FILTER (WHERE kind = 'phase' AND share_pct >= 50) AS phase
        FROM shares
        WHERE place = 1
        GROUP BY trace
    )

SELECT
    b.trace,
    printf(
        'the host does other work than launching: %.3f ms of a step idle (%.1f %%)%s, in %.1f gaps, the longest %.3f ms; %.0f %% of it in no operator (Python, garbage collection, logging, a checkpoint)%s%s%s',
        b.own_ms, 100 * b.own_ms / b.step_ms, b.ranks_text, t.spans_per_step, t.longest_ms,
        greatest(coalesce(s.without_pct, 100), 0),
        coalesce(', most in the operator ' || s.operator_text, ''),
        coalesce(', the range ' || s.range_text, ''), coalesce(', the phase ' || s.phase_text, '')
    ) AS finding,
    {
        rank: CASE WHEN b.is_of_one THEN b.most_rank END, phase: s.phase,
        operator: s.operator
    } AS "where",
    b.time_ms AS time_per_step_ms,
    b.gain_ms,
    [l.steps_limit, l.launches_limit, l.matches_limit] AS limits,
    'look at the host in these gaps (profile with with_stack=True, or py-spy): take logging, metrics and checkpoints out of the step (torch.distributed.checkpoint.async_save), collect garbage at fixed steps on all ranks (gc.disable and gc.collect; torchtitan: gc_freq; Megatron-LM: --manual-gc), and pin processes to the cores beside their device'
        AS advice,
    'SELECT rank, kind, name, time_ms, spans_per_step, longest_ms FROM _idle_labels WHERE trace = {trace} AND part = ''host'' ORDER BY time_ms DESC LIMIT 20'
        AS evidence
FROM _cost_bounds AS b
INNER JOIN _diagnosis_limits AS l ON l.trace = b.trace
INNER JOIN totals AS t ON t.trace = b.trace
LEFT JOIN said AS s ON s.trace = b.trace
WHERE b.subject = 'part' AND b.key = 'host' AND b.gain_ms > 0
