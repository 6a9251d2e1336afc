-- @metric   memory_bound_fraction_pct
-- @version  1
-- @area     devices
-- @summary  Share of kernel time that memory bounds: by operations and bytes against the peaks of
--           the device where the trace states them, else by what the kernels do.
-- @grain    trace
-- @requires device_events
-- @reads    _kernel_sums _traffic_sums _transfer_sums _rank_peaks _rank_rates _rank_list
--           precision_names cards _class_reasons
-- @value    memory_bound_fraction_pct
-- @alias    memory_bound_fraction
-- @reason   (SELECT why FROM _class_reasons WHERE what = 'kernels')
--           | the names of some kernels are lost, or whole CUDA graphs were traced
-- @coverage known_ratio | what bounds the kernels is, by their time,
-- @null     no kernel or copy of the trace takes time
-- @param    peak_tflops DOUBLE NULL | Peak rate of one device in 10^12 operations per second; else
--           that of the trace, else that of device_peaks by the name of the device.
-- @param    peak_gb_per_s DOUBLE NULL | Peak bandwidth of the memory of one device, likewise.
-- @param    precision VARCHAR NULL | Precision of the peak: bf16, fp16, tf32, fp32, fp8, int8; else
--           that of the card, else bf16.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   memory_bound_fraction_pct DOUBLE value pct lower | By method roofline 100 x durations
--           of the compute operations with fewer operations a byte than peak rate / peak bandwidth,
--           of those that state bytes. By method classes 100 x durations of kernels that are
--           elementwise, normalization, softmax, reduction or copy, and of copies and sets, of all
--           kernels, copies and sets. Mean over ranks.
-- @column   method VARCHAR value - | roofline, or classes where the trace states no bytes, or no
--           peak is known.
-- @column   roofline_pct DOUBLE value pct lower | The share by method roofline.
-- @column   memory_class_pct DOUBLE value pct lower | The share by method classes.
-- @column   transfer_pct DOUBLE value pct lower | Of memory_class_pct the copies and sets that are
--           no kernels.
-- @column   ridge_flops_per_byte DOUBLE value flops_per_byte | Peak rate / peak bandwidth, of the
--           lowest rank that has both.
-- @column   known_ratio DOUBLE value ratio | Share of the time of compute operations that states
--           bytes (roofline), or of all kernels whose class is known (classes), over all ranks.
-- @column   by_class LIST value - | By class of kernels, and copy_event and set_event for what is
--           no kernel: time_ms (all ranks), pct; whether it counts as memory bound.
-- @column   per_rank MAP value pct | Share of each rank by the method that counts.
-- @caveat   By classes copies and sets count in both parts; asynchronous copies of XLA, which run
--           beside other work, in neither.
-- @warn     method = 'classes'
--           | it is a guess from the names of kernels: a fused kernel counts as what its name shows
--           first, and GEMMs of few rows (decoding), which are memory bound too, do not count
-- @warn     method = 'roofline'
--           | the bytes are operands and results of each operation: what stays on the chip counts
--           as memory traffic
-- @source   metrics 2.F memory_bound_fraction_pct (defects D46, D47: the share of kernels with few
--           blocks is low_sm_coverage_fraction_pct; copies count); Williams et al., Roofline (CACM
--           52, 2009)
WITH
    formats AS (
        SELECT l.trace, coalesce(lower($precision), max(lower(trim(c.precision))), 'bf16') AS said
        FROM _rank_list AS l
        LEFT JOIN cards AS c ON c.trace = l.trace
        GROUP BY l.trace
    ),

    peaks AS (
        SELECT
            p.trace, p.rank,
            coalesce(1e12 * $peak_tflops, r.flops_per_s)
                / nullif(1e9 * coalesce($peak_gb_per_s, p.hbm_gb_per_s), 0) AS ridge
        FROM _rank_peaks AS p
        INNER JOIN formats AS f ON f.trace = p.trace
        LEFT JOIN precision_names AS n ON n.name = f.said
        LEFT JOIN _rank_rates AS r
            ON r.trace = p.trace
            AND r.rank IS NOT DISTINCT FROM p.rank
            AND r.precision = coalesce(n.precision, f.said)
        WHERE p.rank IS NOT NULL
    ),

    stated AS (
        SELECT
            d.trace, d.rank, p.ridge,
            sum(d.dur_ns) AS dur_ns,
            coalesce(sum(d.dur_ns) FILTER (WHERE d.bytes_accessed IS NOT NULL), 0) AS known_ns,
            coalesce(
                sum(d.dur_ns) FILTER (WHERE coalesce(d.flops, 0) < p.ridge * d.bytes_accessed), 0
            ) AS bound_ns
        FROM _traffic_sums AS d
        INNER JOIN peaks AS p ON p.trace = d.trace AND p.rank = d.rank
        GROUP BY d.trace, d.rank, p.ridge
    ),

    rooflines AS (
        SELECT
            trace, rank, dur_ns, known_ns, ridge,
            100.0 * bound_ns / nullif(known_ns, 0) AS share_pct
        FROM stated
        WHERE ridge IS NOT NULL AND known_ns > 0
    ),

    roofline_totals AS (
        SELECT
            trace,
            avg(share_pct ORDER BY rank) AS roofline_pct,
            CAST(sum(known_ns) AS DOUBLE) / nullif(sum(dur_ns), 0) AS known_ratio,
            list_extract(array_agg(ridge ORDER BY rank), 1) AS ridge,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(share_pct ORDER BY rank))
                AS per_rank
        FROM rooflines
        GROUP BY trace
    ),

    works AS (
        SELECT trace, rank, kernel_class AS kind, dur_ns
        FROM _kernel_sums
        WHERE rank IS NOT NULL
        UNION ALL
        SELECT
            trace, rank, CASE class WHEN 'copy' THEN 'copy_event' ELSE 'set_event' END, dur_ns
        FROM _transfer_sums
        WHERE rank IS NOT NULL
    ),

    kinds AS (
        SELECT
            trace, rank, kind, sum(dur_ns) AS dur_ns,
            kind IN (
                'elementwise', 'normalization', 'softmax', 'reduction', 'copy', 'copy_event', 'set_event'
            ) AS is_memory
        FROM works
        GROUP BY trace, rank, kind
    ),

    rank_classes AS (
        SELECT
            trace, rank, sum(dur_ns) AS dur_ns,
            coalesce(sum(dur_ns) FILTER (WHERE is_memory), 0) AS memory_ns,
            coalesce(sum(dur_ns) FILTER (WHERE kind IN ('copy_event', 'set_event')), 0) AS transfer_ns,
            coalesce(sum(dur_ns) FILTER (WHERE kind = 'other'), 0) AS other_ns
        FROM kinds
        GROUP BY trace, rank
    ),

    class_totals AS (
        SELECT
            trace,
            sum(dur_ns) AS dur_ns,
            avg(100.0 * memory_ns / nullif(dur_ns, 0) ORDER BY rank) AS memory_class_pct,
            avg(100.0 * transfer_ns / nullif(dur_ns, 0) ORDER BY rank) AS transfer_pct,
            1.0 - CAST(sum(other_ns) AS DOUBLE) / nullif(sum(dur_ns), 0) AS known_ratio,
            map(
                array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
                array_agg(100.0 * memory_ns / nullif(dur_ns, 0) ORDER BY rank)
            ) AS per_rank
        FROM rank_classes
        GROUP BY trace
    ),

    kind_sums AS (
        SELECT trace, kind, is_memory, sum(dur_ns) AS dur_ns
        FROM kinds
        GROUP BY trace, kind, is_memory
    ),

    kind_lists AS (
        SELECT
            k.trace,
            array_agg({
                class: k.kind, is_memory_bound: k.is_memory, time_ms: k.dur_ns / 1e6,
                pct: 100.0 * k.dur_ns / nullif(t.dur_ns, 0)
            } ORDER BY k.dur_ns DESC, k.kind) AS by_class
        FROM kind_sums AS k
        INNER JOIN class_totals AS t ON t.trace = k.trace
        GROUP BY k.trace
    )

SELECT
    c.trace,
    coalesce(r.roofline_pct, c.memory_class_pct) AS memory_bound_fraction_pct,
    CASE WHEN r.roofline_pct IS NOT NULL THEN 'roofline' ELSE 'classes' END AS method,
    r.roofline_pct,
    c.memory_class_pct,
    c.transfer_pct,
    r.ridge AS ridge_flops_per_byte,
    CASE WHEN r.roofline_pct IS NOT NULL THEN r.known_ratio ELSE c.known_ratio END
        AS known_ratio,
    k.by_class,
    CASE WHEN r.roofline_pct IS NOT NULL THEN r.per_rank ELSE c.per_rank END AS per_rank
FROM class_totals AS c
LEFT JOIN kind_lists AS k ON k.trace = c.trace
LEFT JOIN roofline_totals AS r ON r.trace = c.trace
ORDER BY c.trace
