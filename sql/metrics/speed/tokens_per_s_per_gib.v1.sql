-- @metric   tokens_per_s_per_gib
-- @version  1
-- @area     speed
-- @summary  Tokens per second of one device for each GiB of memory that it had allocated at its
--           peak.
-- @grain    trace
-- @profilers kineto memory
-- @requires steps
-- @reads    _device_tokens _mean_step_times
-- @value    tokens_per_s_per_gib
-- @check    (SELECT count(*) FROM _mean_step_times WHERE step_s > 0) > 0 | the steps take no time
-- @check    (SELECT count(*) FROM _device_tokens WHERE peak_gib > 0) > 0
--           | no recording of the memory says what was allocated at a time
-- @null     the batch size or the sequence length is not known: a workload card states them, else
--           -p batch_size=N -p seq_len=N give them
-- @param    batch_size BIGINT NULL | Samples of a step of the whole job; that of the card where it
--           is not given.
-- @param    seq_len BIGINT NULL | Tokens of a sample; that of the card where it is not given.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   tokens_per_s_per_gib DOUBLE value tokens_per_s_per_gib higher | device_tokens_per_s /
--           peak_allocated_gib.
-- @column   device_tokens_per_s DOUBLE value tokens_per_s higher | batch_size x seq_len / mean step
--           time (that of avg_step_time) / devices of the job.
-- @column   peak_allocated_gib DOUBLE value gib lower | Most memory that PyTorch had allocated on a
--           device at a time, the largest over ranks (that of the metric memory).
-- @column   devices BIGINT value - | Devices of the job: those of the card, else its ranks.
-- @column   method VARCHAR value - | Recording that the peak is of: snapshot, timeline or counters.
-- @caveat   Only what goes through PyTorch's allocator counts as memory.
-- @source   metrics 2.F tokens_per_second_per_gb (GiB of 2^30 bytes, which the earlier name calls
--           gb)
WITH
    rates AS (
        SELECT
            d.trace,
            CAST(coalesce($batch_size, d.batch_size) AS DOUBLE) * coalesce($seq_len, d.seq_len)
                / nullif(d.devices, 0) / nullif(s.step_s, 0) AS tokens_per_s,
            d.peak_gib, d.devices, d.method
        FROM _device_tokens AS d
        INNER JOIN _mean_step_times AS s ON s.trace = d.trace
        WHERE coalesce($batch_size, d.batch_size) > 0 AND coalesce($seq_len, d.seq_len) > 0
    )

SELECT
    trace,
    tokens_per_s / nullif(peak_gib, 0) AS tokens_per_s_per_gib,
    tokens_per_s AS device_tokens_per_s,
    peak_gib AS peak_allocated_gib,
    devices,
    method
FROM rates
ORDER BY trace
