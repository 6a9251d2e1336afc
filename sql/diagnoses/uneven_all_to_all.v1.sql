-- @diagnosis uneven_all_to_all
-- @version  1
-- @summary  The ranks of all-to-all calls send or receive unlike amounts, as with hot experts, and
--           those with less wait for the one with most.
-- @profilers kineto nsys xla
-- @requires collectives collective_calls _rank_account
-- @reads    _compute_spans _waits _account_windows _wording _diagnosis_limits _match_doubts
--           busy_intervals process_groups
-- @gain     what a rank waits, exposed, in uneven calls for the rank with most bytes, as far as
--           that one has more than the mean of the ranks, and of their exposed transfer what is
--           above an even share of the bytes; of the rank that loses most
-- @shown    all_to_all_imbalance_ratio
-- @param    uneven_ratio DOUBLE 1.1 | A call is uneven from this largest / mean of the bytes of its
--           ranks on.
-- @check    (SELECT count(*) FROM collectives WHERE collective = 'all_to_all') > 0
--           | the trace has no all-to-all
-- @check    (SELECT count(*) FROM collectives WHERE collective = 'all_to_all' AND collective_id IS
--           NOT NULL) > 0
--           | no all-to-all is matched over two ranks or more
-- @check    (SELECT count(*) FROM collectives WHERE collective = 'all_to_all' AND collective_id IS
--           NOT NULL AND coalesce(in_bytes, out_bytes) > 0) > 0
--           | no matched all-to-all states the bytes of its ranks
-- @caveat   Where the rank with most also computes longest, as with the tokens of its experts,
--           slow_rank names it too: it is one thing to fix.
-- @source   as in all_to_all_imbalance_ratio; waiting as in step_account
WITH
    shares AS (
        SELECT
            c.trace, c.source, c.collective_id, c.event_id, c.rank, coalesce(c.device, -1) AS device_key,
            c.pg_id, c.in_bytes, c.out_bytes, c.ts_ns, c.ts_ns + c.dur_ns AS end_ns,
            greatest(c.ts_ns, c.ts_ns + c.dur_ns - m.transfer_ns) AS transfer_ns
        FROM collectives AS c
        INNER JOIN collective_calls AS m
            ON m.trace = c.trace AND m.source = c.source AND m.collective_id = c.collective_id
        WHERE c.collective = 'all_to_all'
    ),

    -- Uneven by what is sent, or by what is received, whichever is more.
    calls AS (
        SELECT
            trace, source, collective_id,
            greatest(
                coalesce(max(in_bytes) / nullif(avg(in_bytes), 0), 1),
                coalesce(max(out_bytes) / nullif(avg(out_bytes), 0), 1)
            ) AS ratio,
            CASE
                WHEN coalesce(max(in_bytes) / nullif(avg(in_bytes), 0), 1)
                    >= coalesce(max(out_bytes) / nullif(avg(out_bytes), 0), 1)
                    THEN min(rank) FILTER (WHERE in_bytes = most_in)
                ELSE min(rank) FILTER (WHERE out_bytes = most_out)
            END AS hot_rank,
            coalesce(max(in_bytes) / nullif(avg(in_bytes), 0), 1)
                >= coalesce(max(out_bytes) / nullif(avg(out_bytes), 0), 1) AS by_sent,
            max(in_bytes) AS most_in, max(out_bytes) AS most_out
        FROM (
            SELECT
                trace, source, collective_id, rank, in_bytes, out_bytes,
                max(in_bytes) OVER (PARTITION BY trace, source, collective_id) AS most_in,
                max(out_bytes) OVER (PARTITION BY trace, source, collective_id) AS most_out
            FROM shares
        )
        GROUP BY trace, source, collective_id
    ),

    uneven AS (
        SELECT
            trace, source, collective_id, ratio, hot_rank, by_sent,
            CASE WHEN by_sent THEN most_in ELSE most_out END AS most_bytes
        FROM calls
        WHERE ratio >= $uneven_ratio
    ),

    -- Waits for the rank with most, as far as it has more than the mean, and the part of the
    -- transfer that even bytes would not need.
    marks AS (
        SELECT
            s.trace, s.rank, s.device_key, s.pg_id, u.hot_rank, u.ratio,
            u.most_bytes,
            unnest([
                {
                    weight: CASE
                        WHEN w.last_rank = u.hot_rank AND s.rank <> u.hot_rank
                            THEN least(1.0, coalesce(
                                (u.most_bytes - u.most_bytes / u.ratio)
                                / nullif(u.most_bytes - CASE WHEN u.by_sent THEN s.in_bytes ELSE s.out_bytes END, 0),
                                1.0
                            ))
                        ELSE 0.0
                    END,
                    start_ns: s.ts_ns, end_ns: s.transfer_ns, is_wait: TRUE
                },
                {
                    weight: 1 - 1 / u.ratio, start_ns: s.transfer_ns, end_ns: s.end_ns, is_wait: FALSE
                }
            ]) AS span
        FROM uneven AS u
        INNER JOIN shares AS s
            ON s.trace = u.trace AND s.source = u.source AND s.collective_id = u.collective_id
        LEFT JOIN _waits AS w
            ON w.trace = s.trace AND w.event_id = s.event_id AND w.aligned = w.by_itself
    ),

    spans AS (
        SELECT
            trace, rank, device_key, pg_id, hot_rank, ratio, most_bytes, span.weight AS weight,
            span.is_wait AS is_wait, span.start_ns AS start_ns, span.end_ns AS end_ns
        FROM marks
    ),

    exposed AS (
        SELECT
            p.trace, p.rank, p.device_key, p.pg_id, p.hot_rank, p.ratio, p.most_bytes, p.weight,
            p.is_wait,
            p.end_ns - p.start_ns
                - coalesce(e.before_ns + least(p.end_ns, e.end_ns) - e.start_ns, 0)
                + coalesce(s.before_ns + least(p.start_ns, s.end_ns) - s.start_ns, 0) AS exposed_ns
        FROM spans AS p
        ASOF LEFT JOIN _compute_spans AS s
            ON s.trace = p.trace AND s.rank = p.rank AND s.device_key = p.device_key
            AND s.start_ns <= p.start_ns
        ASOF LEFT JOIN _compute_spans AS e
            ON e.trace = p.trace AND e.rank = p.rank AND e.device_key = p.device_key
            AND e.start_ns <= p.end_ns
        ASOF INNER JOIN _account_windows AS w
            ON w.trace = p.trace AND w.rank = p.rank AND w.start_ns < p.end_ns
        WHERE w.is_counted AND p.start_ns < w.end_ns
            AND (p.end_ns > p.start_ns OR NOT p.is_wait)
    ),

    windows AS (
        SELECT r.trace, r.rank, r.window_count * d.device_count AS share_count
        FROM (SELECT DISTINCT trace, rank, window_count FROM _rank_account) AS r
        INNER JOIN (
            SELECT trace, rank, count(DISTINCT coalesce(device, -1)) AS device_count
            FROM busy_intervals
            GROUP BY trace, rank
        ) AS d ON d.trace = r.trace AND d.rank = r.rank
    ),

    per_rank AS (
        SELECT
            x.trace, x.pg_id, x.rank,
            count(*) FILTER (WHERE NOT x.is_wait) / s.share_count AS calls,
            sum(x.exposed_ns * x.weight ORDER BY x.is_wait, x.weight, x.exposed_ns)
                / 1e6 / s.share_count AS lost_ms,
            sum(CASE WHEN x.is_wait THEN x.exposed_ns * x.weight ELSE x.exposed_ns END
                ORDER BY x.is_wait, x.weight, x.exposed_ns) / 1e6 / s.share_count AS time_ms
        FROM exposed AS x
        INNER JOIN windows AS s ON s.trace = x.trace AND s.rank = x.rank
        GROUP BY x.trace, x.pg_id, x.rank, s.share_count
    ),

    losses AS (
        SELECT
            trace, pg_id, max(calls) AS calls, max(lost_ms) AS gain_ms, arg_max(time_ms, lost_ms) AS time_ms
        FROM per_rank
        GROUP BY trace, pg_id
    ),

    hot AS (
        SELECT
            trace, pg_id, mode(hot_rank ORDER BY hot_rank) AS hot_rank,
            count(DISTINCT hot_rank) AS hot_count, avg(ratio ORDER BY ratio) AS mean_ratio,
            max(ratio) AS max_ratio, CAST(round(avg(most_bytes)) AS BIGINT) AS mean_bytes
        FROM exposed
        GROUP BY trace, pg_id
    )

SELECT
    o.trace,
    printf(
        'in %.0f all_to_all calls%s %s the rank with most bytes has %.2f times the mean of the ranks (up to %.2f), %s; a rank loses up to %.3f ms by that',
        o.calls, coalesce(' of ' || g.pg_desc, ''), w.of_what, h.mean_ratio, h.max_ratio,
        CASE
            WHEN h.hot_count = 1 THEN 'always rank ' || h.hot_rank
            ELSE 'most often rank ' || h.hot_rank || ' of ' || h.hot_count
        END,
        o.gain_ms
    ) AS finding,
    {
        rank: h.hot_rank, "group": g.pg_desc, kind: 'all_to_all', size_bytes: h.mean_bytes
    } AS "where",
    o.time_ms AS time_per_step_ms,
    o.gain_ms,
    [l.steps_limit, l.clocks_limit, l.matches_limit, doubts.doubts_limit] AS limits,
    'send the ranks like amounts: experts: a loss or bias that balances them (Megatron: --moe-router-load-balancing-type, --moe-aux-loss-coeff, --moe-router-enable-expert-bias), a capacity (--moe-expert-capacity-factor), hot experts placed on different ranks or doubled; embedding tables: another sharding plan (TorchRec: EmbeddingShardingPlanner)'
        AS advice,
    'SELECT c.collective_id, c.step, c.rank, c.in_bytes, c.out_bytes, c.dur_ns / 1e6 AS duration_ms, w.wait_ns / 1e6 AS wait_ms, w.last_rank FROM collectives AS c LEFT JOIN _waits AS w ON w.trace = c.trace AND w.event_id = c.event_id AND w.aligned = w.by_itself WHERE c.trace = {trace} AND c.collective = ''all_to_all'' ORDER BY c.collective_id, c.rank'
        AS evidence
FROM losses AS o
INNER JOIN hot AS h ON h.trace = o.trace AND h.pg_id IS NOT DISTINCT FROM o.pg_id
LEFT JOIN process_groups AS g ON g.trace = o.trace AND g.pg_id = o.pg_id
INNER JOIN _wording AS w ON w.trace = o.trace
INNER JOIN _diagnosis_limits AS l ON l.trace = o.trace
LEFT JOIN _match_doubts AS doubts ON doubts.trace = o.trace
WHERE o.gain_ms > 0
QUALIFY row_number() OVER (PARTITION BY o.trace ORDER BY o.gain_ms DESC, o.pg_id) <= 3
