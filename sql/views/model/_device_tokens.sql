-- @view     _device_tokens
-- @summary  Batch size and sequence length of the card, where there is one, devices of the job, and
--           the most memory that PyTorch had allocated on a device at a time (the largest over
--           ranks).
-- @requires _workload _job_devices _rank_memory
-- @caveat   peak_gib is NULL without a recording of memory with totals.
WITH
    peaks AS (
        SELECT trace, max(allocated_bytes) / 1073741824 AS peak_gib, min(method) AS method
        FROM _rank_memory
        GROUP BY trace
    )

SELECT
    d.trace, w.batch_size, w.seq_len, CAST(d.devices AS BIGINT) AS devices, p.peak_gib, p.method
FROM _job_devices AS d
LEFT JOIN _workload AS w ON w.trace = d.trace
LEFT JOIN peaks AS p ON p.trace = d.trace
