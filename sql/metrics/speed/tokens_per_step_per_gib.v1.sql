-- @metric   tokens_per_step_per_gib
-- @version  1
-- @area     speed
-- @summary  Tokens that one device takes in a step for each GiB of memory that it had allocated at
--           its peak.
-- @grain    trace
-- @profilers kineto memory
-- @reads    _device_tokens
-- @value    tokens_per_step_per_gib
-- @check    (SELECT count(*) FROM _device_tokens WHERE peak_gib > 0) > 0
--           | no recording of the memory says what was allocated at a time
-- @null     the batch size or the sequence length is not known: a workload card states them, else
--           -p batch_size=N -p seq_len=N give them
-- @param    batch_size BIGINT NULL | Samples of a step of the whole job; that of the card where it
--           is not given.
-- @param    seq_len BIGINT NULL | Tokens of a sample; that of the card where it is not given.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   tokens_per_step_per_gib DOUBLE value tokens_per_gib higher | device_step_tokens /
--           peak_allocated_gib.
-- @column   device_step_tokens DOUBLE value tokens higher | batch_size x seq_len / devices of the
--           job.
-- @column   peak_allocated_gib DOUBLE value gib lower | Most memory that PyTorch had allocated on a
--           device at a time, the largest over ranks (that of the metric memory).
-- @column   devices BIGINT value - | Devices of the job: those of the card, else its ranks.
-- @column   method VARCHAR value - | Recording that the peak is of: snapshot, timeline or counters.
-- @caveat   Only what goes through PyTorch's allocator counts as memory.
-- @source   metrics 2.F tokens_per_step_per_gb (GiB of 2^30 bytes, which the earlier name calls gb)
WITH
    tokens AS (
        SELECT
            trace,
            CAST(coalesce($batch_size, batch_size) AS DOUBLE) * coalesce($seq_len, seq_len)
                / nullif(devices, 0) AS step_tokens,
            peak_gib, devices, method
        FROM _device_tokens
        WHERE coalesce($batch_size, batch_size) > 0 AND coalesce($seq_len, seq_len) > 0
    )

SELECT
    trace,
    step_tokens / nullif(peak_gib, 0) AS tokens_per_step_per_gib,
    step_tokens AS device_step_tokens,
    peak_gib AS peak_allocated_gib,
    devices,
    method
FROM tokens
ORDER BY trace
