-- @view     _rank_rates
-- @summary  Peak rate of one device of each rank by precision, one row each.
-- @requires _rank_peaks
-- @caveat   Precisions are those of device_peaks: bf16, fp16, tf32, fp32, fp8, int8.
WITH
    rates AS (
        SELECT trace, rank, 'bf16' AS precision, bf16_flops_per_s AS flops_per_s, bf16_source AS source
        FROM _rank_peaks
        UNION ALL
        SELECT trace, rank, 'fp16', fp16_flops_per_s, 'device_peaks'
        FROM _rank_peaks
        UNION ALL
        SELECT trace, rank, 'tf32', tf32_flops_per_s, 'device_peaks'
        FROM _rank_peaks
        UNION ALL
        SELECT trace, rank, 'fp32', fp32_flops_per_s, 'device_peaks'
        FROM _rank_peaks
        UNION ALL
        SELECT trace, rank, 'fp8', fp8_flops_per_s, 'device_peaks'
        FROM _rank_peaks
        UNION ALL
        SELECT trace, rank, 'int8', int8_flops_per_s, 'device_peaks'
        FROM _rank_peaks
    )

SELECT trace, rank, precision, flops_per_s, source
FROM rates
WHERE flops_per_s IS NOT NULL
