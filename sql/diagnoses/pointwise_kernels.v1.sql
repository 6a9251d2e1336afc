-- @diagnosis pointwise_kernels
-- @version  1
-- @summary  Kernels that only move memory (elementwise, copies, reductions) follow each other
--           unfused.
-- @profilers kineto nsys
-- @requires device_events _kernel_sums _account_windows _account_shares
-- @reads    _rank_account _wording _diagnosis_limits
-- @gain     of each run of such kernels, which follow each other on a stream with no other kernel
--           between, all but the time of its longest one, as if one pass over memory did it all;
--           kernels of less than 10 us are in short_kernels and not counted here; the step loses
--           what the rank has that has least
-- @shown    kernel
-- @check    (SELECT count(*) FROM device_events WHERE source <> 'xla') > 0
--           | XLA fuses kernels itself, and its events are operations
-- @check    (SELECT count(*) FROM _wording WHERE framework = 'pytorch') > 0
--           | no kernel is of PyTorch, so that nothing says which ones could be fused
-- @caveat   What kernels do is known by their names. Kernels that Inductor has fused count as
--           others. Kernels of a run may work on different tensors, as in an optimizer: fused they
--           still move all of them, and the gain is less. What could be fused into a GEMM is not
--           counted.
-- @source   kernel_classes; time as in step_account
WITH
    classes AS (
        SELECT
            trace, name,
            arg_max(kernel_class, dur_ns) IN ('elementwise', 'copy', 'reduction')
                AND coalesce(name NOT LIKE 'triton\_%' ESCAPE '\', FALSE) AS is_pointwise
        FROM _kernel_sums
        GROUP BY trace, name
    ),

    kernels AS (
        SELECT
            d.trace, d.rank, d.device, d.stream, d.event_id, d.ts_ns, d.dur_ns,
            coalesce(c.is_pointwise AND d.class = 'compute', FALSE) AS is_pointwise
        FROM device_events AS d
        LEFT JOIN classes AS c ON c.trace = d.trace AND c.name = d.name
        ASOF INNER JOIN _account_windows AS w
            ON w.trace = d.trace AND w.rank = d.rank AND w.start_ns <= d.ts_ns
        WHERE d.class IN ('compute', 'comm')
            AND d.dur_ns > 0
            AND w.is_counted
            AND d.ts_ns < w.end_ns
            AND NOT (coalesce(c.is_pointwise, FALSE) AND d.dur_ns < 10000)
    ),

    placed AS (
        SELECT
            trace, rank, device, stream, dur_ns, is_pointwise,
            sum(CASE WHEN is_pointwise THEN 0 ELSE 1 END) OVER (
                PARTITION BY trace, rank, device, stream ORDER BY ts_ns, event_id
                ROWS UNBOUNDED PRECEDING
            ) AS run
        FROM kernels
    ),

    runs AS (
        SELECT
            trace, rank, count(*) AS kernel_count, sum(dur_ns) AS time_ns, max(dur_ns) AS longest_ns
        FROM placed
        WHERE is_pointwise
        GROUP BY trace, rank, device, stream, run
    ),

    ranks AS (
        SELECT
            s.trace, s.rank,
            CAST(coalesce(sum(r.kernel_count), 0) AS DOUBLE) / s.share_count AS kernels_per_step,
            CAST(count(r.kernel_count) AS DOUBLE) / s.share_count AS runs_per_step,
            coalesce(sum(r.time_ns), 0) / 1e6 / s.share_count AS time_ms,
            coalesce(sum(r.time_ns - r.longest_ns), 0) / 1e6 / s.share_count AS gain_ms
        FROM _account_shares AS s
        LEFT JOIN runs AS r ON r.trace = s.trace AND r.rank = s.rank
        GROUP BY s.trace, s.rank, s.share_count
    ),

    sums AS (
        SELECT
            trace, avg(kernels_per_step ORDER BY rank) AS kernels_per_step,
            avg(runs_per_step ORDER BY rank) AS runs_per_step,
            avg(time_ms ORDER BY rank) AS time_ms, min(gain_ms) AS gain_ms
        FROM ranks
        GROUP BY trace
    ),

    accounts AS (
        SELECT
            trace,
            sum(time_ms ORDER BY rank) FILTER (WHERE part = 'compute') / count(DISTINCT rank)
                AS compute_ms
        FROM _rank_account
        GROUP BY trace
    ),

    operators AS (
        SELECT trace, op_name, sum(dur_ns) AS dur_ns
        FROM _kernel_sums
        WHERE kernel_class IN ('elementwise', 'copy', 'reduction') AND op_name IS NOT NULL
        GROUP BY trace, op_name
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY sum(dur_ns) DESC, op_name) <= 3
    ),

    operator_lists AS (
        SELECT
            trace, string_agg(op_name, ', ' ORDER BY dur_ns DESC, op_name) AS names,
            arg_max(op_name, dur_ns) AS most
        FROM operators
        GROUP BY trace
    )

SELECT
    s.trace,
    printf(
        '%.0f kernels %s only move memory (elementwise, copies, reductions; 10 us or longer) and take %.3f ms, %.0f %% of the compute, in %.0f runs without another kernel between; if each run took what its longest kernel takes, %.3f ms were left%s',
        s.kernels_per_step, w.of_what, s.time_ms, 100 * s.time_ms / a.compute_ms, s.runs_per_step,
        s.time_ms - s.gain_ms, coalesce('; most are of ' || o.names, '')
    ) AS finding,
    {operator: o.most} AS "where",
    s.time_ms AS time_per_step_ms,
    s.gain_ms,
    [l.steps_limit] AS limits,
    'fuse them: torch.compile (of each layer, where not of the model), fused norms, rotary embeddings, activations and losses (Liger, Transformer Engine, Apex), fused optimizers (AdamW(fused=True)); bfloat16 in place of float32 halves what they move; no .to(), .contiguous() and cat that only copy'
        AS advice,
    'SELECT kernel_class, name, op_name, sum(events) AS kernels, sum(dur_ns) / 1e6 AS total_ms FROM _kernel_sums WHERE trace = {trace} AND kernel_class IN (''elementwise'', ''copy'', ''reduction'') GROUP BY ALL ORDER BY total_ms DESC LIMIT 20'
        AS evidence
FROM sums AS s
INNER JOIN accounts AS a ON a.trace = s.trace
INNER JOIN _wording AS w ON w.trace = s.trace
INNER JOIN _diagnosis_limits AS l ON l.trace = s.trace
LEFT JOIN operator_lists AS o ON o.trace = s.trace
WHERE s.gain_ms > 0
