-- @view     nccl_long
-- @summary  Communication events of each rank, one row each, with the call that they are a share
--           of.
-- @requires collectives
-- @reads    _group_names _clock_shifts
-- @null     the trace has no communication
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   collective_id BIGINT value - | Call over the ranks; NULL where unmatched.
-- @column   index_in_group BIGINT value - | Place among the events of the rank in the process
--           group, by start, from 0.
-- @column   rank BIGINT dim - | Global rank.
-- @column   pg_name VARCHAR value - | Process group as recorded.
-- @column   pg_ranks VARCHAR value - | Its ranks, as a list; of more than 64 the first and the
--           last; NULL where the trace cuts it.
-- @column   collective VARCHAR value - | Kind.
-- @column   group_size BIGINT value - | Ranks of the group.
-- @column   dtype VARCHAR value - | Element type as recorded.
-- @column   in_elems BIGINT value - | Elements of the input of this rank.
-- @column   in_mb DOUBLE value mb | Size of the input of this rank, 10^6 bytes.
-- @column   out_elems BIGINT value - | Elements of the output of this rank.
-- @column   out_mb DOUBLE value mb | Size of the output of this rank, 10^6 bytes.
-- @column   in_split VARCHAR value - | Splits of the input of an uneven all-to-all.
-- @column   out_split VARCHAR value - | Splits of the output.
-- @column   device BIGINT value - | Accelerator.
-- @column   stream BIGINT value - | In-order queue of the device.
-- @column   ts_us DOUBLE value us | Start, since the first communication of any rank.
-- @column   dur_us DOUBLE value us | Duration.
-- @column   event_id BIGINT dim - | Number of the event.
-- @column   clock_aligned BOOLEAN value - | Whether the offsets of the clocks of the ranks were
--           taken away from starts: where one exceeds both its uncertainty and the median lag of
--           the calls.
-- @heading  pg_name | Process Group Name
-- @heading  pg_ranks | Process Group Ranks
-- @heading  collective | Collective name
-- @heading  group_size | Group size
-- @heading  in_elems | In msg nelems
-- @heading  in_mb | In msg size (MB)
-- @heading  out_elems | Out msg nelems
-- @heading  out_mb | Out msg size (MB)
-- @heading  in_split | In split size
-- @heading  out_split | Out split size
-- @heading  ts_us | ts
-- @heading  dur_us | dur
-- @source   metrics 7.2 nccl_long; MB is 10^6 bytes, and starts count from the first one, which
--           doubles hold exactly
SELECT
    c.trace,
    c.collective_id,
    row_number() OVER (PARTITION BY c.trace, c.rank, c.pg_id ORDER BY c.ts_ns, c.event_id) - 1
        AS index_in_group,
    c.rank,
    g.pg_name,
    g.pg_ranks,
    c.collective,
    c.group_size,
    c.dtype,
    c.in_elems,
    c.in_bytes / 1e6 AS in_mb,
    c.out_elems,
    c.out_bytes / 1e6 AS out_mb,
    CAST(c.in_split AS VARCHAR) AS in_split,
    CAST(c.out_split AS VARCHAR) AS out_split,
    c.device,
    c.stream,
    (
        c.ts_ns - o.shift_ns
        - min(c.ts_ns - o.shift_ns) OVER (PARTITION BY c.trace)
    ) / 1e3 AS ts_us,
    c.dur_ns / 1e3 AS dur_us,
    c.event_id,
    o.aligned AS clock_aligned
FROM collectives AS c
INNER JOIN _clock_shifts AS o ON o.trace = c.trace AND o.rank = c.rank AND o.aligned = o.by_itself
LEFT JOIN _group_names AS g ON g.trace = c.trace AND g.pg_id = c.pg_id
ORDER BY c.trace, c.ts_ns, c.rank, c.event_id
