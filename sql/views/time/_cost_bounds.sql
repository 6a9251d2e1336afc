-- @view     _cost_bounds
-- @summary  What a step could lose at most if a part of it alone were gone on all ranks.
-- @materialize session
-- @requires _rank_account
-- @reads    _account_shares _call_idle _copy_costs _kernel_costs _late_ranks
-- @caveat   subject: part of step_account, copy (a direction, detail pageable), launches (launch
--           and kernel_gap together), few_sms and kernel (by name), short; key and detail say
--           which. A rank loses its own time, and of its exposed waiting for another rank, directly
--           or for one that waits for it, no more than what that one loses: its own time, and of
--           its waiting for third ranks no more than their own; communication not matched over the
--           ranks counts as such waiting. The step loses no more than the rank that loses least:
--           gain_ms. Of launch, host, data_loading and sync, what the step loses by a late rank
--           alone is not counted (share_ms of _late_ranks); and as ranks meet in each matched call,
--           no rank loses more idle time before a call than the rank that idles most before it.
--           time_ms is the mean over the ranks of what they lose, own_ms that of their own time
--           alone. is_of_one: more than three quarters of it are of most_rank. some_text and
--           count_form say where some ranks have none: then a count is a mean with a digit.
WITH
    accounts AS MATERIALIZED (
        SELECT trace, rank, step_ms, part, for_rank, cause_rank, time_ms
        FROM _rank_account
    ),

    -- Parts without what late_rank says of them; below a nanosecond nothing is left.
    parts AS MATERIALIZED (
        SELECT
            a.trace, a.rank, a.part, a.time_ms - coalesce(l.share_ms, 0) AS time_ms
        FROM accounts AS a
        LEFT JOIN _late_ranks AS l
            ON l.trace = a.trace AND l.rank = a.rank AND l.part = a.part
        WHERE
            a.part IN (
                'launch', 'host', 'data_loading', 'sync', 'kernel_gap', 'other', 'unknown', 'copy'
            )
            AND a.time_ms - coalesce(l.share_ms, 0) >= 1e-6
    ),

    costs AS MATERIALIZED (
        SELECT trace, rank, 'part' AS subject, part AS key, '' AS detail, time_ms
        FROM parts
        UNION ALL
        SELECT trace, rank, 'launches', 'launch, kernel_gap', '', sum(time_ms ORDER BY part)
        FROM parts
        WHERE part IN ('launch', 'kernel_gap')
        GROUP BY trace, rank
        UNION ALL
        SELECT
            trace, rank, 'copy', coalesce(direction, ''),
            CASE WHEN pageable THEN 'pageable' ELSE '' END, exposed_ms
        FROM _copy_costs
        WHERE exposed_ms > 0
        UNION ALL
        SELECT trace, rank, 'few_sms', name, '', low_ms
        FROM _kernel_costs
        WHERE low_ms > 0
        UNION ALL
        SELECT trace, rank, 'kernel', name, '', time_ms
        FROM _kernel_costs
        QUALIFY sum(time_ms) OVER (PARTITION BY trace, name)
            >= 0.05 * sum(time_ms) OVER (PARTITION BY trace)
        UNION ALL
        -- Each short kernel costs what the shortest of the rank takes, up to 1 us.
        SELECT
            trace, rank, 'short', 'kernels', '',
            sum(short_per_step ORDER BY name) * least(min(least_ns), 1000) / 1e6
        FROM _kernel_costs
        GROUP BY trace, rank
        HAVING sum(short_per_step) > 0
    ),

    -- The most that ranks idle before each call, less what late_rank says of it.
    met AS (
        SELECT
            t.trace, t.subject, t.key,
            sum(t.time_ns) / 1e6 / any_value(s.share_count) - coalesce(any_value(l.share_ms), 0) AS time_ms
        FROM (
            SELECT trace, subject, key, place, call, max(time_ns) AS time_ns
            FROM (
                SELECT
                    trace, 'part' AS subject, part AS key, rank, place, call, time_ns
                FROM _call_idle
                UNION ALL
                SELECT
                    trace, 'launches', 'launch, kernel_gap', rank, place, call, sum(time_ns)
                FROM _call_idle
                WHERE part IN ('launch', 'kernel_gap')
                GROUP BY trace, rank, place, call
            )
            GROUP BY trace, subject, key, place, call
        ) AS t
        INNER JOIN (
            SELECT trace, min(share_count) AS share_count FROM _account_shares GROUP BY trace
        ) AS s ON s.trace = t.trace
        LEFT JOIN (
            SELECT trace, part, sum(share_ms ORDER BY rank) AS share_ms
            FROM _late_ranks
            GROUP BY trace, part
        ) AS l ON l.trace = t.trace AND t.key IN (l.part, l.part || ', kernel_gap')
        GROUP BY t.trace, t.subject, t.key
    ),

    ranks AS (
        SELECT
            trace, rank, any_value(step_ms) AS step_ms,
            coalesce(sum(time_ms) FILTER (WHERE part = 'unmatched'), 0) AS unmatched_ms
        FROM accounts
        GROUP BY trace, rank
    ),

    waits AS (
        SELECT trace, rank, cause_rank, sum(time_ms ORDER BY for_rank) AS wait_ms
        FROM accounts
        WHERE cause_rank <> rank
        GROUP BY trace, rank, cause_rank
    ),

    -- The most of a cost on one rank, and on another one than that.
    tops AS (
        SELECT
            trace, subject, key, detail,
            array_agg({rank: rank, time_ms: time_ms} ORDER BY time_ms DESC, rank) AS most
        FROM costs
        GROUP BY trace, subject, key, detail
    ),

    -- What a rank waits for others because of their own time.
    direct AS (
        SELECT
            c.trace, c.subject, c.key, c.detail, w.rank, w.cause_rank,
            least(w.wait_ms, c.time_ms) AS wait_ms
        FROM costs AS c
        INNER JOIN waits AS w ON w.trace = c.trace AND w.cause_rank = c.rank
    ),

    -- What each rank loses so.
    reached AS (
        SELECT
            coalesce(c.trace, d.trace) AS trace, coalesce(c.subject, d.subject) AS subject,
            coalesce(c.key, d.key) AS key, coalesce(c.detail, d.detail) AS detail,
            coalesce(c.rank, d.rank) AS rank,
            coalesce(c.time_ms, 0) + coalesce(d.wait_ms, 0) AS time_ms
        FROM costs AS c
        FULL JOIN (
            SELECT
                trace, subject, key, detail, rank, sum(wait_ms ORDER BY cause_rank) AS wait_ms
            FROM direct
            GROUP BY trace, subject, key, detail, rank
        ) AS d
            ON d.trace = c.trace
            AND d.rank = c.rank
            AND d.subject = c.subject
            AND d.key = c.key
            AND d.detail = c.detail
    ),

    -- Waiting for a rank is also for those that it waits for, but for the one itself that waits.
    caused AS (
        SELECT
            r.trace, r.subject, r.key, r.detail, w.rank,
            sum(least(w.wait_ms, r.time_ms - coalesce(d.wait_ms, 0)) ORDER BY r.rank) AS wait_ms
        FROM reached AS r
        INNER JOIN waits AS w ON w.trace = r.trace AND w.cause_rank = r.rank
        LEFT JOIN direct AS d
            ON d.trace = r.trace
            AND d.rank = r.rank
            AND d.cause_rank = w.rank
            AND d.subject = r.subject
            AND d.key = r.key
            AND d.detail = r.detail
        GROUP BY r.trace, r.subject, r.key, r.detail, w.rank
    ),

    losses AS (
        SELECT
            t.trace, t.subject, t.key, t.detail, r.rank, r.step_ms,
            coalesce(c.time_ms, 0) AS own_ms,
            least(
                r.step_ms,
                CASE WHEN m.time_ms IS NOT NULL THEN greatest(m.time_ms, t.most[1].time_ms) END,
                coalesce(c.time_ms, 0) + coalesce(w.wait_ms, 0) + least(
                    r.unmatched_ms,
                    CASE WHEN t.most[1].rank <> r.rank THEN t.most[1].time_ms
                        ELSE coalesce(t.most[2].time_ms, 0)
                    END
                )
            ) AS loss_ms
        FROM tops AS t
        INNER JOIN ranks AS r ON r.trace = t.trace
        LEFT JOIN met AS m ON m.trace = t.trace AND m.subject = t.subject AND m.key = t.key
        LEFT JOIN costs AS c
            ON c.trace = t.trace
            AND c.rank = r.rank
            AND c.subject = t.subject
            AND c.key = t.key
            AND c.detail = t.detail
        LEFT JOIN caused AS w
            ON w.trace = t.trace
            AND w.rank = r.rank
            AND w.subject = t.subject
            AND w.key = t.key
            AND w.detail = t.detail
    ),

    sums AS (
        SELECT
            trace, subject, key, detail, avg(step_ms ORDER BY rank) AS step_ms,
            avg(loss_ms ORDER BY rank) AS time_ms, min(loss_ms) AS gain_ms,
            avg(own_ms ORDER BY rank) AS own_ms, max(own_ms) AS most_ms,
            arg_max(rank, {own_ms: own_ms, rank: -rank}) AS most_rank,
            CAST(count(*) FILTER (WHERE own_ms > 0) AS BIGINT) AS having_count,
            CAST(count(*) AS BIGINT) AS rank_count
        FROM losses
        GROUP BY trace, subject, key, detail
    )

SELECT
    trace, subject, key, nullif(detail, '') AS detail, step_ms, time_ms, gain_ms, own_ms, most_ms,
    most_rank, having_count, rank_count,
    rank_count > 1 AND most_ms > 0.75 * own_ms * rank_count AS is_of_one,
    CASE WHEN rank_count > 1
        THEN printf(' as mean over the ranks, up to %.3f ms (rank %d)', most_ms, most_rank)
        ELSE ''
    END AS ranks_text,
    CASE WHEN having_count < rank_count
        THEN printf(' as mean over the ranks, %d of %d have any', having_count, rank_count)
        ELSE ''
    END AS some_text,
    CASE WHEN having_count < rank_count THEN '%.1f' ELSE '%.0f' END AS count_form
FROM sums
