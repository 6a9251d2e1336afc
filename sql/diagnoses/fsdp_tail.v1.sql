-- @diagnosis fsdp_tail
-- @version  1
-- @summary  Gradients are reduced at the end of the backward pass of FSDP with nothing beside that
--           hides it.
-- @profilers kineto nsys
-- @requires _rank_account
-- @reads    fsdp_steps _fsdp_calls _account_windows _diagnosis_limits busy_intervals
-- @gain     transfer without compute beside it of the last reductions of each step: those from
--           whose start to the end of the last one devices compute for less than half of the time;
--           mean over the ranks with FSDP; of a rank not more than its exposed transfer
-- @shown    fsdp
-- @check    (SELECT coalesce(sum(reduce_ns), 0) FROM fsdp_steps) > 0
--           | no range of FSDP launched a reduction of gradients that the trace holds
-- @check    (SELECT count(*) FROM busy_intervals WHERE class = 'compute') > 0
--           | the trace has no compute on a device, which could hide a reduction
-- @caveat   Of a call that is not matched over the ranks all of its time counts, waiting included.
-- @source   transfer as in step_account; calls by the range of FSDP that launched them
WITH
    windows AS (
        SELECT trace, rank, count(*) AS window_count, bool_or(per = 'trace') AS is_trace
        FROM _account_windows
        WHERE is_counted
        GROUP BY trace, rank
    ),

    calls AS (
        SELECT
            trace, rank, device, step, message_bytes, exposed_ns,
            kind = 'reduce'
                AND 2 * (max(end_compute_ns) OVER of_step - start_compute_ns)
                    < max(end_ns) OVER of_step - start_ns AS is_tail
        FROM _fsdp_calls
        WINDOW of_step AS (PARTITION BY trace, rank, device, step, kind)
    ),

    -- A rank that reduces nothing, or whose reductions compute hides, has none at the end: it loses
    -- nothing.
    counted AS (
        SELECT
            r.trace, r.rank, w.window_count, count(DISTINCT r.device) AS device_count,
            count(*) FILTER (WHERE r.is_tail) AS call_count,
            CASE WHEN bool_or(r.is_tail) THEN sum(r.message_bytes) FILTER (WHERE r.is_tail) ELSE 0 END
                AS bytes,
            coalesce(sum(r.exposed_ns) FILTER (WHERE r.is_tail), 0) AS exposed_ns
        FROM calls AS r
        INNER JOIN windows AS w ON w.trace = r.trace AND w.rank = r.rank
        LEFT JOIN _account_windows AS s
            ON s.trace = r.trace AND s.rank = r.rank AND s.step = r.step AND s.is_counted
        WHERE s.step IS NOT NULL OR w.is_trace
        GROUP BY r.trace, r.rank, w.window_count
    ),

    rooms AS (
        SELECT trace, rank, sum(time_ms ORDER BY part) AS room_ms
        FROM _rank_account
        WHERE part IN ('transfer', 'unmatched')
        GROUP BY trace, rank
    ),

    ranks AS (
        SELECT
            c.trace, c.rank, c.call_count / (c.window_count * c.device_count) AS calls,
            c.bytes / (c.window_count * c.device_count) AS bytes,
            least(
                c.exposed_ns / 1e6 / (c.window_count * c.device_count), coalesce(r.room_ms, 0)
            ) AS exposed_ms
        FROM counted AS c
        LEFT JOIN rooms AS r ON r.trace = c.trace AND r.rank = c.rank
    ),

    traces AS (
        SELECT
            trace, avg(calls ORDER BY rank) AS calls,
            CASE WHEN count(bytes) = count(*) THEN avg(bytes ORDER BY rank) END AS bytes,
            avg(exposed_ms ORDER BY rank) AS exposed_ms
        FROM ranks
        GROUP BY trace
    )

SELECT
    t.trace,
    printf(
        'at the end of the backward pass of FSDP gradients are reduced with no compute beside for %.3f ms of a step (%.1f calls%s)',
        t.exposed_ms, t.calls,
        CASE WHEN t.bytes IS NULL THEN '' ELSE printf(', %.3f MB', t.bytes / 1e6) END
    ) AS finding,
    {kind: 'reduce_scatter', phase: 'backward'} AS "where",
    t.exposed_ms AS time_per_step_ms,
    t.exposed_ms AS gain_ms,
    [l.steps_limit, l.launches_limit, l.matches_limit] AS limits,
    'make the last reduction small: wrap the first layers and the embedding by themselves (fully_shard on each block and on the embedding), so that little is left for the root; with gradient accumulation reduce in the last micro-batch alone (FSDP2 set_requires_gradient_sync(False), FSDP1 no_sync); reduce in bf16 (MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)); step the optimizer of the layers that are ready while the rest is reduced'
        AS advice,
    'SELECT rank, step, collective, message_bytes, start_ns, transfer_ns, exposed_ns FROM _fsdp_calls WHERE trace = {trace} AND kind = ''reduce'' ORDER BY rank, start_ns DESC LIMIT 20'
        AS evidence
FROM traces AS t
INNER JOIN _diagnosis_limits AS l ON l.trace = t.trace
WHERE t.exposed_ms > 0
