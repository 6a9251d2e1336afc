-- @view     straggler_summary
-- @summary  How long each rank waits for the others in matched calls, how often it comes last and first, and how late; the rank that waits least first.
-- @requires _waits
-- @null     no call was found on every ingested rank of its group
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   total_wait_us DOUBLE value us | Time in which it waits for the last rank, not longer than its own events.
-- @column   mean_wait_us DOUBLE value us | Mean over its calls.
-- @column   mean_lag_us DOUBLE value us lower | Mean of own start - first start of the call.
-- @column   times_last BIGINT value calls | Calls in which it starts last.
-- @column   times_first BIGINT value calls | Calls in which it starts first.
-- @column   last_pct DOUBLE value pct lower | times_last, of its calls.
-- @column   collective_count BIGINT value count | Matched calls that it is in.
-- @column   total_comm_us DOUBLE value us | Durations of its events in them, waits included.
-- @heading  total_wait_us | total_wait_time_us
-- @heading  mean_wait_us | mean_wait_time_us
-- @heading  times_last | times_arrived_last
-- @heading  times_first | times_arrived_first
-- @heading  last_pct | pct_arrived_last
-- @heading  collective_count | num_collectives
-- @heading  total_comm_us | total_nccl_dur_us
-- @caveat   Starts of ranks are compared as recorded: where clocks differ (hosts), their offset is in it; see the metric straggler_lag with -p align=true.
-- @source   metrics 7.2 straggler_summary (defects D60, D61: the rank that waits least is waited for)
WITH
    shares AS (
        SELECT
            trace, rank, dur_ns, wait_ns, is_last, is_first,
            max(late_ns) OVER (PARTITION BY trace, source, collective_id) - late_ns AS lag_ns
        FROM _waits
    )

SELECT
    trace, rank,
    sum(wait_ns) / 1e3 AS total_wait_us,
    avg(wait_ns) / 1e3 AS mean_wait_us,
    avg(lag_ns) / 1e3 AS mean_lag_us,
    count(*) FILTER (WHERE is_last) AS times_last,
    count(*) FILTER (WHERE is_first) AS times_first,
    100.0 * count(*) FILTER (WHERE is_last) / count(*) AS last_pct,
    count(*) AS collective_count,
    sum(dur_ns) / 1e3 AS total_comm_us
FROM shares
GROUP BY trace, rank
ORDER BY trace, total_wait_us, rank
