-- @metric   tokens_per_step_per_gib
-- @version  1
-- @area     throughput
-- @summary  Tokens that one device takes in a step for each GiB of memory that it had allocated at its peak.
-- @grain    trace
-- @profilers kineto memory
-- @requires cards
-- @reads    _device_tokens
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
    final AS (
        SELECT
            trace,
            step_tokens / nullif(peak_gib, 0) AS tokens_per_step_per_gib,
            step_tokens AS device_step_tokens,
            peak_gib AS peak_allocated_gib,
            devices,
            method
        FROM _device_tokens
    )

SELECT trace, tokens_per_step_per_gib, device_step_tokens, peak_allocated_gib, devices, method
FROM final
ORDER BY trace
