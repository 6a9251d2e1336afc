-- @view     nccl_summary_long
-- @summary  Communication of each rank by process group, kind, type, size and stream: how often,
--           and how long.
-- @requires nccl_long
-- @null     the trace has no communication
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   pg_name VARCHAR dim - | Process group as recorded.
-- @column   pg_ranks VARCHAR dim - | Its ranks, as a list.
-- @column   collective VARCHAR dim - | Kind.
-- @column   group_size BIGINT dim - | Ranks of the group.
-- @column   dtype VARCHAR dim - | Element type as recorded.
-- @column   in_elems BIGINT dim - | Elements of the input.
-- @column   out_elems BIGINT dim - | Elements of the output.
-- @column   in_split VARCHAR dim - | Splits of the input of an uneven all-to-all.
-- @column   out_split VARCHAR dim - | Splits of the output.
-- @column   device BIGINT dim - | Accelerator.
-- @column   stream BIGINT dim - | In-order queue of the device.
-- @column   in_mb DOUBLE value mb | Size of the input, 10^6 bytes.
-- @column   out_mb DOUBLE value mb | Size of the output, 10^6 bytes.
-- @column   total_us DOUBLE value us lower | Durations added up.
-- @column   mean_us DOUBLE value us lower | Mean duration.
-- @column   std_us DOUBLE value us | Standard deviation of the durations (n - 1).
-- @column   min_us DOUBLE value us | Shortest.
-- @column   max_us DOUBLE value us | Longest.
-- @column   events BIGINT value calls | Events.
-- @heading  pg_name | Process Group Name
-- @heading  pg_ranks | Process Group Ranks
-- @heading  collective | Collective name
-- @heading  group_size | Group size
-- @heading  in_elems | In msg nelems
-- @heading  out_elems | Out msg nelems
-- @heading  in_split | In split size
-- @heading  out_split | Out split size
-- @heading  in_mb | In msg size (MB)_first
-- @heading  out_mb | Out msg size (MB)_first
-- @heading  total_us | dur_sum (us)
-- @heading  mean_us | dur_mean (us)
-- @heading  std_us | dur_std (us)
-- @heading  min_us | dur_min (us)
-- @heading  max_us | dur_max (us)
-- @heading  events | operation_count
-- @source   metrics 7.2 nccl_summary_long; durations in microseconds
SELECT
    trace, rank, pg_name, pg_ranks, collective, group_size, dtype, in_elems, out_elems, in_split,
    out_split, device, stream,
    max(in_mb) AS in_mb,
    max(out_mb) AS out_mb,
    sum(dur_us ORDER BY dur_us) AS total_us,
    avg(dur_us ORDER BY dur_us) AS mean_us,
    stddev_samp(dur_us ORDER BY dur_us) AS std_us,
    min(dur_us) AS min_us,
    max(dur_us) AS max_us,
    count(*) AS events
FROM nccl_long
GROUP BY
    trace, rank, pg_name, pg_ranks, collective, group_size, dtype, in_elems, out_elems, in_split,
    out_split, device, stream
ORDER BY
    trace, total_us DESC NULLS LAST, rank, pg_name, pg_ranks, collective, group_size, dtype, in_elems,
    out_elems, in_split, out_split, device, stream
