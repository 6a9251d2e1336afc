-- @metric   collective_vol_allreduce_gb
-- @version  1
-- @area     traffic
-- @summary  Data that the all-reduce calls of a rank carry in the whole trace: sum of their message
--           sizes, mean over ranks.
-- @grain    trace
-- @requires collectives
-- @reads    _kind_volumes
-- @value    collective_vol_allreduce_gb
-- @coverage size_coverage_ratio | message sizes are
-- @check    (SELECT count(*) FROM collectives WHERE collective = 'all_reduce') > 0
--           | the trace has no all-reduce
-- @null     no all-reduce has a known size
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   collective_vol_allreduce_gb DOUBLE value gb | Sum of the message sizes (the buffer of
--           one rank) over the whole trace, mean over the ranks that have a window; a rank without
--           such calls counts as 0.
-- @column   per_step_gb DOUBLE value gb | What a step launched of it, mean over the steps of a
--           rank, then over the ranks with steps; NULL without steps.
-- @column   wire_gb DOUBLE value gb | What a rank must send for it at least, by group size; mean
--           over ranks.
-- @column   all_ranks_gb DOUBLE value gb | Message sizes summed over the ranks.
-- @column   calls BIGINT value calls | Calls of all ranks.
-- @column   calls_with_size BIGINT value calls | Those whose size is known.
-- @column   size_coverage_ratio DOUBLE value ratio | calls_with_size / calls.
-- @caveat   The tool that set the name reads rank 0 alone.
-- @source   metrics 1.4 (message size S), 2.C comm_volume_bytes (defect D28)
SELECT
    trace, message_gb AS collective_vol_allreduce_gb, per_step_gb, wire_gb, all_ranks_gb, calls,
    calls_with_size, size_coverage_ratio
FROM _kind_volumes
WHERE collective = 'all_reduce'
ORDER BY trace
