-- @view     what_if
-- @summary  What a step would take at least if one thing were otherwise, each by itself: links
--           twice as fast, the rank that is waited for most like the others, communication hidden,
--           launches without cost.
-- @requires _rank_account
-- @reads    _link_shares
-- @null     nothing of a step is communication or idle time that launches cause; or no rank with
--           steps has a device
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   scenario VARCHAR dim - | links_twice_as_fast, slowest_rank_like_others,
--           communication_hidden or launches_free.
-- @column   rank BIGINT value - | Of slowest_rank_like_others, the rank.
-- @column   per VARCHAR value - | step, or trace.
-- @column   step_ms DOUBLE value ms lower | Time of a step, mean over the steps that count and over
--           ranks.
-- @column   gain_ms DOUBLE value ms lower | The most that it could lose.
-- @column   gain_pct DOUBLE value pct | The same, of the step.
-- @column   bound_ms DOUBLE value ms lower | What is left: a step takes at least this.
-- @column   definition VARCHAR value - | The bound.
-- @caveat   Upper bounds of the gain: what becomes faster may uncover what it hid.
-- @source   step_account
WITH
    accounts AS MATERIALIZED (
        SELECT trace, rank, per, step_ms, part, for_rank, cause_rank, time_ms
        FROM _rank_account
    ),

    rank_times AS (
        SELECT
            trace, rank, per, any_value(step_ms) AS step_ms,
            coalesce(sum(time_ms) FILTER (WHERE part = 'transfer'), 0) AS transfer_ms,
            coalesce(
                sum(time_ms ORDER BY part, for_rank)
                    FILTER (WHERE part IN ('transfer', 'wait', 'unmatched')), 0
            ) AS comm_ms,
            coalesce(
                sum(time_ms ORDER BY part) FILTER (WHERE part IN ('launch', 'kernel_gap')), 0
            ) AS launch_ms
        FROM accounts
        GROUP BY trace, rank, per
    ),

    means AS (
        SELECT
            trace, per, avg(step_ms ORDER BY rank) AS step_ms,
            avg(transfer_ms ORDER BY rank) AS transfer_ms, avg(comm_ms ORDER BY rank) AS comm_ms,
            avg(launch_ms ORDER BY rank) AS launch_ms
        FROM rank_times
        GROUP BY trace, per
    ),

    -- How long each rank waits for a rank, directly or for one that waits for it itself.
    waits AS (
        SELECT trace, rank, cause_rank, sum(time_ms ORDER BY for_rank) AS wait_ms
        FROM accounts
        WHERE cause_rank <> rank
        GROUP BY trace, rank, cause_rank
    ),

    waited AS (
        SELECT trace, cause_rank AS rank, max(wait_ms) AS wait_ms
        FROM waits
        GROUP BY trace, cause_rank
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY sum(wait_ms ORDER BY rank) DESC, cause_rank
        ) = 1
    ),

    items AS (
        SELECT
            m.trace, m.per, m.step_ms, w.rank AS slowest,
            unnest([
                {
                    scenario: 'links_twice_as_fast',
                    gain_ms: m.transfer_ms * coalesce(l.beta_share, 1) / 2,
                    definition: 'half of the exposed transfer that grows with the message size'
                        || CASE WHEN l.beta_share IS NULL THEN ' (no fit: of all of it)' ELSE '' END
                },
                {
                    scenario: 'slowest_rank_like_others', gain_ms: w.wait_ms,
                    definition: 'the most that a rank waits, exposed, for rank ' || w.rank
                },
                {
                    scenario: 'communication_hidden', gain_ms: m.comm_ms,
                    definition: 'all exposed communication, waiting included'
                },
                {
                    scenario: 'launches_free', gain_ms: m.launch_ms,
                    definition: 'idle time in which launches do not keep up, and between queued kernels'
                }
            ]) AS item
        FROM means AS m
        LEFT JOIN waited AS w ON w.trace = m.trace
        LEFT JOIN _link_shares AS l ON l.trace = m.trace
    )

SELECT
    trace, item.scenario AS scenario,
    CASE WHEN item.scenario = 'slowest_rank_like_others' THEN slowest END AS rank, per, step_ms, item.gain_ms AS gain_ms, 100 * item.gain_ms / step_ms AS gain_pct,
    step_ms - item.gain_ms AS bound_ms, item.definition AS definition
FROM items
WHERE item.gain_ms > 0
ORDER BY
    trace,
    list_position([
        'links_twice_as_fast', 'slowest_rank_like_others', 'communication_hidden', 'launches_free'
    ], item.scenario)
