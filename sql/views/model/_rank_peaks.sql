-- @view     _rank_peaks
-- @summary  What one device of each rank can do at most: as the trace states it, else by the name
--           of the device (that of the card where the trace names none).
-- @requires ranks cards metadata device_peaks
-- @caveat   A rate that a TPU trace states is that of bfloat16.
WITH
    -- The plane of a TPU says its peaks.
    said AS (
        SELECT
            trace, rank,
            max(TRY_CAST(value AS DOUBLE))
                FILTER (WHERE key LIKE '%:peak_hbm_bw_gigabytes_per_second') AS hbm_gb_per_s,
            max(TRY_CAST(value AS DOUBLE))
                FILTER (WHERE key LIKE '%:peak_teraflops_per_second') AS bf16_tera
        FROM metadata
        WHERE key LIKE '%:peak_hbm_bw_gigabytes_per_second'
            OR key LIKE '%:peak_teraflops_per_second'
        GROUP BY trace, rank
    ),

    job_cards AS (
        SELECT trace, first(xpu_model ORDER BY path) FILTER (WHERE xpu_model IS NOT NULL) AS xpu_model
        FROM cards
        GROUP BY trace
    ),

    names AS (
        SELECT r.trace, r.rank, coalesce(min(r.device_name), any_value(c.xpu_model)) AS device_name
        FROM ranks AS r
        LEFT JOIN job_cards AS c ON c.trace = r.trace
        GROUP BY r.trace, r.rank
    ),

    listed AS (
        SELECT
            n.trace, n.rank, p.hbm_gb_per_s, p.bf16_flops_per_s, p.fp16_flops_per_s,
            p.tf32_flops_per_s, p.fp32_flops_per_s, p.fp8_flops_per_s, p.int8_flops_per_s
        FROM names AS n
        INNER JOIN device_peaks AS p ON lower(n.device_name) LIKE p.pattern
        QUALIFY row_number() OVER (
            PARTITION BY n.trace, n.rank ORDER BY p.priority, length(p.pattern) DESC, p.pattern
        ) = 1
    )

SELECT
    n.trace, n.rank, n.device_name,
    coalesce(s.hbm_gb_per_s, l.hbm_gb_per_s) AS hbm_gb_per_s,
    CASE
        WHEN s.hbm_gb_per_s IS NOT NULL THEN 'trace'
        WHEN l.hbm_gb_per_s IS NOT NULL THEN 'device_peaks'
    END AS hbm_source,
    coalesce(1e12 * s.bf16_tera, l.bf16_flops_per_s) AS bf16_flops_per_s,
    CASE
        WHEN s.bf16_tera IS NOT NULL THEN 'trace'
        WHEN l.bf16_flops_per_s IS NOT NULL THEN 'device_peaks'
    END AS bf16_source,
    l.fp16_flops_per_s, l.tf32_flops_per_s, l.fp32_flops_per_s, l.fp8_flops_per_s,
    l.int8_flops_per_s
FROM names AS n
LEFT JOIN listed AS l ON l.trace = n.trace AND l.rank = n.rank
LEFT JOIN said AS s ON s.trace = n.trace AND s.rank = n.rank
