-- @metric   mfu
-- @version  1
-- @area     speed
-- @summary  Floating-point operations that the model needs per second of the steps, as a share of
--           what the devices of the job can do.
-- @grain    trace
-- @requires ranks
-- @reads    _step_times _rank_step_times _mean_step_times _job_devices _rank_rates _rank_list
--           _rank_times precision_names cards _device_counts _step_flops steps
-- @value    mfu_pct
-- @coverage launch_coverage_ratio | launches of the events that state operations, by these
--           operations, are
-- @check    (SELECT count(*) FROM cards WHERE coalesce(num_params_active, num_params) > 0 AND
--           num_layers > 0 AND num_heads > 0 AND head_dim > 0) > 0 OR (SELECT count(*) FROM
--           _device_counts WHERE flops_events > 0) > 0
--           | no workload card states the architecture of the model (num_params, num_layers,
--           num_heads, head_dim), and no device event states floating-point operations
-- @check    (SELECT count(*) FROM steps WHERE marker <> 'engine step') > 0 OR (SELECT count(*) FROM
--           _device_counts WHERE flops_events > 0) > 0
--           | the trace has no steps that are a batch each (iterations of an inference engine take
--           other numbers of tokens than batch_size x seq_len)
-- @check    (SELECT count(*) FROM cards WHERE num_params_embedding >= coalesce(num_params_active,
--           num_params)) = 0
--           | the workload card states more parameters of the embedding than of the model
-- @null     no peak is known for the device in this precision (-p peak_tflops= gives one), or
--           neither the card nor -p batch_size= -p seq_len= state the tokens of a step, or the
--           steps take no time
-- @param    peak_tflops DOUBLE NULL | Peak rate of one device in 10^12 operations per second; else
--           that of the trace, else that of device_peaks by the name of the device.
-- @param    precision VARCHAR NULL | Precision of the peak: bf16, fp16, tf32, fp32, fp8, int8; else
--           that of the card, else bf16.
-- @param    batch_size BIGINT NULL | Samples of a step of the whole job; that of the card where it
--           is not given.
-- @param    seq_len BIGINT NULL | Tokens of a sample; that of the card where it is not given.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   mfu_pct DOUBLE value pct higher | 100 x flops_per_token x tokens_per_s / (devices x
--           peak); by the other methods 100 x rate of one device / peak, mean over the ingested
--           ranks whose peak is known.
-- @column   method VARCHAR value - | card (operations by the architecture of the card),
--           flops_in_steps (operations that the device events of the steps state / time of the
--           steps), or flops_in_window (the same over the whole window, where the trace has no
--           steps).
-- @column   flops_per_token DOUBLE value flops_per_token | Training: 6 x (parameters - embedding) +
--           12 x layers x head_dim x heads x seq_len; inference and serving: 2 and 4 in place of 6
--           and 12. NULL by the other methods.
-- @column   tokens_per_s DOUBLE value tokens_per_s higher | batch_size x seq_len / step_time_s, of
--           the whole job. NULL by the other methods.
-- @column   peak_tflops DOUBLE value - | Peak of one device in 10^12 operations per second; mean
--           over ranks.
-- @column   peak_source VARCHAR value - | param, trace or device_peaks, of the lowest rank; NULL
--           for none.
-- @column   devices BIGINT value - | Devices that the operations are of: of the card, else of the
--           job; by the other methods those ingested.
-- @column   precision VARCHAR value - | Precision of the peak.
-- @column   step_time_s DOUBLE value s lower | Mean step time, that of avg_step_time; NULL without
--           steps.
-- @column   device_tflops_per_s DOUBLE value - higher | Operations of one device per second, in
--           10^12.
-- @column   model_params DOUBLE value - | Parameters: those active per token where the card says
--           them, else all.
-- @column   embedding_params DOUBLE value - | Parameters of the embedding, which are subtracted;
--           NULL where the card says none, and nothing is.
-- @column   phase VARCHAR value - | Phase that the card states.
-- @column   launch_coverage_ratio DOUBLE value ratio | By method flops_in_steps the share of the
--           operations whose launch, and so whose step, is known (of XLA all); NULL by the others.
-- @warn     mfu_pct > 100
--           | the share is above 100 %: what the card says of the model, the batch or the devices,
--           or the peak, is not that of this run
-- @caveat   Attention counts as if every token saw the whole sequence: of a causal model half of it
--           is done. Recomputed activations do not count by method card, and do count by the
--           others.
-- @caveat   batch_size is that of the whole job, and a step is one batch: where a step is a part of
--           one (gradient accumulation), the figure is too high.
-- @source   metrics 2.F mfu_pct (defects D15, D52: one formula, step wall time, serving is
--           inference, no -1 for what is unknown); PaLM (arXiv 2204.02311), appendix B
WITH
    models AS (
        SELECT
            trace, phase, precision,
            CAST(coalesce(num_params_active, num_params) AS DOUBLE) AS model_params,
            CAST(num_params_embedding AS DOUBLE) AS embedding_params,
            CAST(num_layers AS DOUBLE) * num_heads * head_dim * coalesce($seq_len, seq_len)
                AS attention_size,
            CAST(coalesce($batch_size, batch_size) AS DOUBLE) * coalesce($seq_len, seq_len)
                AS step_tokens,
            CASE WHEN lower(phase) IN ('inference', 'serving') THEN 2 ELSE 6 END AS factor
        FROM cards
        WHERE coalesce(num_params_active, num_params) > 0
            AND num_layers > 0 AND num_heads > 0 AND head_dim > 0
            AND coalesce($batch_size, batch_size) > 0 AND coalesce($seq_len, seq_len) > 0
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY path) = 1
    ),

    -- Of several cards that whose model counts, else the first that says it.
    precisions AS (
        SELECT
            l.trace,
            CASE
                WHEN count(m.trace) > 0 THEN max(m.phase)
                ELSE list_extract(
                    array_agg(c.phase ORDER BY c.path) FILTER (WHERE c.phase IS NOT NULL), 1
                )
            END AS phase,
            coalesce(
                lower($precision),
                CASE
                    WHEN count(m.trace) > 0 THEN max(lower(trim(m.precision)))
                    ELSE list_extract(
                        array_agg(lower(trim(c.precision)) ORDER BY c.path)
                            FILTER (WHERE c.precision IS NOT NULL),
                        1
                    )
                END,
                'bf16'
            ) AS said
        FROM _rank_list AS l
        LEFT JOIN cards AS c ON c.trace = l.trace
        LEFT JOIN models AS m ON m.trace = l.trace
        GROUP BY l.trace
    ),

    formats AS (
        SELECT p.trace, p.phase, coalesce(n.precision, p.said) AS precision
        FROM precisions AS p
        LEFT JOIN precision_names AS n ON n.name = p.said
    ),

    peaks AS (
        SELECT
            l.trace, l.rank, f.precision,
            coalesce(1e12 * $peak_tflops, r.flops_per_s) AS flops_per_s,
            CASE WHEN $peak_tflops IS NOT NULL THEN 'param' ELSE r.source END AS source
        FROM _rank_list AS l
        INNER JOIN formats AS f ON f.trace = l.trace
        LEFT JOIN _rank_rates AS r
            ON r.trace = l.trace
            AND r.rank IS NOT DISTINCT FROM l.rank
            AND r.precision = f.precision
    ),

    trace_peaks AS (
        SELECT
            trace,
            avg(flops_per_s ORDER BY rank) AS flops_per_s,
            list_extract(
                array_agg(source ORDER BY rank) FILTER (WHERE source IS NOT NULL), 1
            ) AS source
        FROM peaks
        GROUP BY trace
    ),

    engines AS (
        SELECT trace, bool_or(marker = 'engine step') AS is_engine
        FROM steps
        GROUP BY trace
    ),

    by_card AS (
        SELECT
            m.trace, 'card' AS method, m.model_params, m.embedding_params, d.devices,
            m.factor * (m.model_params - coalesce(m.embedding_params, 0))
                + 2 * m.factor * m.attention_size AS flops_per_token,
            m.step_tokens / nullif(s.step_s, 0) AS tokens_per_s
        FROM models AS m
        INNER JOIN _mean_step_times AS s ON s.trace = m.trace
        INNER JOIN engines AS e ON e.trace = m.trace AND NOT e.is_engine
        INNER JOIN _job_devices AS d ON d.trace = m.trace
    ),

    in_steps AS (
        SELECT s.trace, s.rank, CAST(sum(s.flops) AS DOUBLE) AS flops
        FROM _step_flops AS s
        INNER JOIN _step_times AS t
            ON t.trace = s.trace AND t.rank = s.rank AND t.step = s.step
        GROUP BY s.trace, s.rank
    ),

    stated_launches AS (
        SELECT
            trace, CAST(sum(known_flops) AS DOUBLE) / nullif(sum(flops), 0) AS known_ratio
        FROM _step_flops
        GROUP BY trace
    ),

    in_window AS (
        SELECT trace, rank, CAST(sum(flops) AS DOUBLE) AS flops
        FROM _step_flops
        GROUP BY trace, rank
    ),

    rank_rates AS (
        SELECT
            w.trace, w.rank, r.device_count,
            coalesce(i.flops, 0) / nullif(s.steps_ns / 1e9 * r.device_count, 0) AS flops_per_s,
            'flops_in_steps' AS method
        FROM in_window AS w
        INNER JOIN _rank_times AS r
            ON r.trace = w.trace AND r.rank = w.rank AND r.basis = 'device'
        INNER JOIN _rank_step_times AS s ON s.trace = w.trace AND s.rank = w.rank
        LEFT JOIN in_steps AS i ON i.trace = w.trace AND i.rank = w.rank
        UNION ALL
        SELECT
            w.trace, w.rank, r.device_count, w.flops / nullif(r.window_ns / 1e9, 0), 'flops_in_window'
        FROM in_window AS w
        INNER JOIN _rank_times AS r
            ON r.trace = w.trace AND r.rank = w.rank AND r.basis = 'device'
        WHERE NOT EXISTS (SELECT 1 FROM _rank_step_times AS s WHERE s.trace = w.trace)
    ),

    by_events AS (
        SELECT
            r.trace, r.method, TRY_CAST(sum(r.device_count) AS BIGINT) AS devices,
            avg(r.flops_per_s ORDER BY r.rank) AS flops_per_s,
            avg(100.0 * r.flops_per_s / nullif(p.flops_per_s, 0) ORDER BY r.rank) AS mfu_pct
        FROM rank_rates AS r
        INNER JOIN peaks AS p ON p.trace = r.trace AND p.rank = r.rank
        WHERE NOT EXISTS (SELECT 1 FROM by_card AS c WHERE c.trace = r.trace)
        GROUP BY r.trace, r.method
    )

SELECT
    f.trace,
    CASE
        WHEN c.method IS NOT NULL THEN
            100.0 * c.flops_per_token * c.tokens_per_s / nullif(c.devices * p.flops_per_s, 0)
        ELSE e.mfu_pct
    END AS mfu_pct,
    coalesce(c.method, e.method) AS method,
    c.flops_per_token,
    c.tokens_per_s,
    p.flops_per_s / 1e12 AS peak_tflops,
    p.source AS peak_source,
    TRY_CAST(coalesce(c.devices, e.devices) AS BIGINT) AS devices,
    f.precision,
    s.step_s AS step_time_s,
    coalesce(c.flops_per_token * c.tokens_per_s / nullif(c.devices, 0), e.flops_per_s) / 1e12
        AS device_tflops_per_s,
    c.model_params,
    c.embedding_params,
    f.phase,
    CASE WHEN coalesce(c.method, e.method) = 'flops_in_steps' THEN l.known_ratio END
        AS launch_coverage_ratio
FROM formats AS f
LEFT JOIN trace_peaks AS p ON p.trace = f.trace
LEFT JOIN _mean_step_times AS s ON s.trace = f.trace
LEFT JOIN by_card AS c ON c.trace = f.trace
LEFT JOIN by_events AS e ON e.trace = f.trace
LEFT JOIN stated_launches AS l ON l.trace = f.trace
ORDER BY f.trace
