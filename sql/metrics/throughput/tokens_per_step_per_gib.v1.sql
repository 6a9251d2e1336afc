-- @metric   tokens_per_step_per_gib
-- @version  1
-- @area     throughput
-- @summary  Tokens that one device takes in a step for each GiB of memory that it had allocated at its peak.
-- @grain    trace
-- @profilers kineto memory
-- @requires cards
-- @reads    _rank_memory _job_devices
-- @value    tokens_per_step_per_gib
-- @check    (SELECT max(batch_size) FROM cards) > 0 | the workload card has no batch_size
-- @check    (SELECT max(seq_len) FROM cards) > 0 | the workload card has no seq_len
-- @null     the trace has no recording of memory with totals
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   tokens_per_step_per_gib DOUBLE value tokens_per_gib higher | device_step_tokens / peak_allocated_gib.
-- @column   device_step_tokens DOUBLE value tokens higher | batch_size x seq_len of the card / devices of the job.
-- @column   peak_allocated_gib DOUBLE value gib lower | Most memory that PyTorch had allocated on a device at a time, the largest over ranks (that of the metric memory).
-- @column   devices BIGINT value - | Devices of the job: those of the card, else its ranks.
-- @column   method VARCHAR value - | Recording that the peak is of: snapshot, timeline or counters.
-- @caveat   Only what goes through PyTorch's allocator counts as memory.
-- @source   metrics 2.F tokens_per_step_per_gb (GiB of 2^30 bytes, which the earlier name calls gb)
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
    ),

    rates AS (
        SELECT
            w.trace, p.peak_gib, p.method, d.devices,
            w.step_tokens / nullif(d.devices, 0) AS device_tokens
        FROM workload AS w
        INNER JOIN _job_devices AS d ON d.trace = w.trace
        LEFT JOIN peaks AS p ON p.trace = w.trace
    ),

    final AS (
        SELECT
            trace,
            device_tokens / nullif(peak_gib, 0) AS tokens_per_step_per_gib,
            device_tokens AS device_step_tokens,
            peak_gib AS peak_allocated_gib,
            CAST(devices AS BIGINT) AS devices,
            method
        FROM rates
    )

SELECT trace, tokens_per_step_per_gib, device_step_tokens, peak_allocated_gib, devices, method
FROM final
ORDER BY trace
