-- @view     straggler_summary
-- @summary  How long each rank waits for the others in matched calls, how often it comes last and
--           first, and how late; the rank that waits least first.
-- @requires _waits _wait_causes
-- @null     no call was found on every ingested rank of its group
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   total_wait_us DOUBLE value us | Time in which it waits for the last rank, not longer
--           than its own events.
-- @column   mean_wait_us DOUBLE value us | Mean over its calls.
-- @column   mean_lag_us DOUBLE value us lower | Mean of own start - first start of the call.
-- @column   times_last BIGINT value calls | Calls in which it starts last.
-- @column   times_first BIGINT value calls | Calls in which it starts first.
-- @column   last_pct DOUBLE value pct lower | times_last, of its calls.
-- @column   collective_count BIGINT value count | Matched calls that it is in.
-- @column   total_comm_us DOUBLE value us | Durations of its events in them, waits included.
-- @column   caused_wait_us DOUBLE value us lower | Waits of the other ranks in the calls in which
--           it starts last.
-- @column   origin_wait_us DOUBLE value us lower | Waits of all ranks that go back to it, over
--           however many ranks: what it causes, less what it hands on because it waited itself, and
--           what others hand on to it.
-- @column   cause_rank BIGINT value - | Of a victim, a rank that is late mostly because it waited
--           for another, the rank that it goes back to; else NULL.
-- @column   clock_aligned BOOLEAN value - | Whether the offsets of the clocks of the ranks were
--           taken away: where one exceeds both its uncertainty and the median lag of the calls.
-- @heading  total_wait_us | total_wait_time_us
-- @heading  mean_wait_us | mean_wait_time_us
-- @heading  times_last | times_arrived_last
-- @heading  times_first | times_arrived_first
-- @heading  last_pct | pct_arrived_last
-- @heading  collective_count | num_collectives
-- @heading  total_comm_us | total_nccl_dur_us
-- @source   metrics 7.2 straggler_summary (defects D60, D61: the rank that waits least is waited
--           for); victims and origins: Böhme and others 2010, Identifying the root causes of wait
--           states
WITH
    shares AS (
        SELECT
            trace, rank, dur_ns, wait_ns, is_last, is_first, aligned,
            max(late_ns) OVER (PARTITION BY trace, collective_id) - late_ns AS lag_ns
        FROM _waits
        WHERE aligned = by_itself
    )

SELECT
    s.trace, s.rank,
    sum(s.wait_ns) / 1e3 AS total_wait_us,
    avg(s.wait_ns) / 1e3 AS mean_wait_us,
    avg(s.lag_ns) / 1e3 AS mean_lag_us,
    count(*) FILTER (WHERE s.is_last) AS times_last,
    count(*) FILTER (WHERE s.is_first) AS times_first,
    100.0 * count(*) FILTER (WHERE s.is_last) / count(*) AS last_pct,
    count(*) AS collective_count,
    sum(s.dur_ns) / 1e3 AS total_comm_us,
    c.caused_ns / 1e3 AS caused_wait_us,
    c.origin_ns / 1e3 AS origin_wait_us,
    c.cause_rank,
    s.aligned AS clock_aligned
FROM shares AS s
INNER JOIN _wait_causes AS c ON c.trace = s.trace AND c.rank = s.rank AND c.aligned = s.aligned
GROUP BY s.trace, s.rank, s.aligned, c.caused_ns, c.origin_ns, c.cause_rank
ORDER BY s.trace, total_wait_us, s.rank
