-- @metric   tokens_per_s_per_gib
-- @version  1
-- @area     throughput
-- @summary  Tokens per second of one device for each GiB of memory that it had allocated at its peak.
-- @grain    trace
-- @profilers kineto memory
-- @requires cards steps
-- @reads    _device_tokens _mean_step_times
-- @value    tokens_per_s_per_gib
-- @check    (SELECT max(batch_size) FROM cards) > 0 | the workload card has no batch_size
-- @check    (SELECT max(seq_len) FROM cards) > 0 | the workload card has no seq_len
-- @null     the trace has no recording of memory with totals, or the steps take no time
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   tokens_per_s_per_gib DOUBLE value tokens_per_s_per_gib higher | device_tokens_per_s / peak_allocated_gib.
-- @column   device_tokens_per_s DOUBLE value tokens_per_s higher | batch_size x seq_len of the card / mean step time (that of avg_step_time) / devices of the job.
-- @column   peak_allocated_gib DOUBLE value gib lower | Most memory that PyTorch had allocated on a device at a time, the largest over ranks (that of the metric memory).
-- @column   devices BIGINT value - | Devices of the job: those of the card, else its ranks.
-- @column   method VARCHAR value - | Recording that the peak is of: snapshot, timeline or counters.
-- @caveat   Only what goes through PyTorch's allocator counts as memory.
-- @source   metrics 2.F tokens_per_second_per_gb (GiB of 2^30 bytes, which the earlier name calls gb)
WITH
    rates AS (
        SELECT
            d.trace, d.step_tokens / nullif(s.step_s, 0) AS tokens_per_s, d.peak_gib, d.devices, d.method
        FROM _device_tokens AS d
        INNER JOIN _mean_step_times AS s ON s.trace = d.trace
    ),

    final AS (
        SELECT
            trace,
            tokens_per_s / nullif(peak_gib, 0) AS tokens_per_s_per_gib,
            tokens_per_s AS device_tokens_per_s,
            peak_gib AS peak_allocated_gib,
            devices,
            method
        FROM rates
    )

SELECT trace, tokens_per_s_per_gib, device_tokens_per_s, peak_allocated_gib, devices, method
FROM final
ORDER BY trace
