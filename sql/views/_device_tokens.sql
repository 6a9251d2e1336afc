-- @view     _device_tokens
-- @summary  Tokens that one device takes in a step by the card, beside the most memory that PyTorch had allocated on a device at a time (the largest over ranks).
-- @requires cards _job_devices _rank_memory
-- @caveat   peak_gib is NULL without a recording of memory with totals.
WITH
    workload AS (
        SELECT trace, CAST(max(batch_size) AS DOUBLE) * max(seq_len) AS step_tokens
        FROM cards
        GROUP BY trace
    ),

    peaks AS (
        SELECT trace, max(allocated_bytes) / 1073741824 AS peak_gib, min(method) AS method
        FROM _rank_memory
        GROUP BY trace
    )

SELECT
    w.trace, w.step_tokens / nullif(d.devices, 0) AS step_tokens, CAST(d.devices AS BIGINT) AS devices,
    p.peak_gib, p.method
FROM workload AS w
INNER JOIN _job_devices AS d ON d.trace = w.trace
LEFT JOIN peaks AS p ON p.trace = w.trace
