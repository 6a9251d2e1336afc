-- @diagnosis slow_group
-- @version  1
-- @summary  Calls of one process group take far longer than those of other groups of the same kind,
--           group size and message size, or than their fit says.
-- @profilers kineto nsys xla
-- @requires _exposed_transfers
-- @reads    _wording _diagnosis_limits _match_doubts hockney_fits _group_names
-- @gain     what the group exposes of these calls in a step, all sizes together, less what the
--           other groups like it expose of theirs (their median), not more than its transfers are
--           longer than they need (the median of the mean transfers of the others; without other
--           groups what the fit says, and all that is exposed); mean over the ranks of the group,
--           for which the others wait
-- @shown    collective_sizes
-- @param    slow_ratio DOUBLE 1.5 | How many times what the others need, or what the fit says, a
--           call must take.
-- @check    (SELECT count(*) FROM _exposed_transfers WHERE is_matched) > 0
--           | no call of two ranks or more is matched over them
-- @check    (SELECT count(*) FROM _exposed_transfers WHERE is_matched AND message_bytes > 0) > 0
--           | no matched call states its size
-- @caveat   What such calls push back of other sizes or kinds is not in the gain. Groups are
--           compared that serve the same dimension over the same kind of link. Against
--           the fit only where it rests on three sizes and is sound but for sizes off the line; an
--           uneven all_to_all is in none.
-- @source   Hockney model, as in hockney_fits
WITH
    calls AS (
        SELECT
            trace, rank, collective, coalesce(pg_id, 0) AS group_key, pg_desc, dim, group_size,
            message_bytes, link, calls, transfer_ms, exposed_ms
        FROM _exposed_transfers
        WHERE is_matched AND NOT uneven AND message_bytes > 0
    ),

    groups AS (
        SELECT
            trace, collective, group_key, any_value(pg_desc) AS pg_desc, dim, group_size,
            message_bytes, link,
            sum(transfer_ms ORDER BY rank) / sum(calls ORDER BY rank) AS one_ms,
            sum(exposed_ms ORDER BY rank) / sum(calls ORDER BY rank) AS one_exposed_ms
        FROM calls
        GROUP BY trace, collective, group_key, dim, group_size, message_bytes, link
    ),

    -- What the other groups need; a fit where there are none.
    needed AS (
        SELECT
            g.trace, g.collective, g.group_key, g.dim, g.group_size, g.message_bytes, g.link,
            g.one_ms, median(o.one_ms) AS others_ms, count(o.one_ms) AS other_count,
            coalesce(median(o.one_exposed_ms), 0) AS others_exposed_ms,
            any_value(CASE
                WHEN f.sizes >= 3 AND coalesce(f.flag = 'theil_sen_differs', TRUE)
                    THEN (f.alpha_us * 1e3 + f.beta_s_per_gb * g.message_bytes) / 1e6
            END) AS fit_ms
        FROM groups AS g
        LEFT JOIN groups AS o
            ON o.trace = g.trace
            AND o.collective = g.collective
            AND o.dim IS NOT DISTINCT FROM g.dim
            AND o.group_size IS NOT DISTINCT FROM g.group_size
            AND o.message_bytes = g.message_bytes
            AND o.link IS NOT DISTINCT FROM g.link
            AND o.group_key <> g.group_key
        LEFT JOIN hockney_fits AS f
            ON f.trace = g.trace
            AND f.collective = g.collective
            AND f.group_size IS NOT DISTINCT FROM g.group_size
            AND f.link IS NOT DISTINCT FROM g.link
        GROUP BY
            g.trace, g.collective, g.group_key, g.dim, g.group_size, g.message_bytes, g.link,
            g.one_ms
    ),

    slow AS (
        SELECT
            trace, collective, group_key, dim, group_size, message_bytes, link, one_ms,
            coalesce(others_ms, fit_ms) AS needed_ms, others_exposed_ms, other_count
        FROM needed
        WHERE one_ms > $slow_ratio * coalesce(others_ms, fit_ms)
    ),

    per_rank AS (
        SELECT
            c.trace, c.rank, s.group_key, any_value(c.pg_desc) AS pg_desc,
            -- One finding of a group against others; each kind and size by itself against the fit.
            s.other_count > 0 AS against_groups,
            CASE WHEN s.other_count = 0 THEN s.collective END AS fit_kind,
            CASE WHEN s.other_count = 0 THEN s.message_bytes END AS fit_bytes,
            max(s.other_count) AS other_count,
            string_agg(DISTINCT s.collective, ', ' ORDER BY s.collective) AS kinds,
            arg_min(
                {kind: s.collective, size_bytes: s.message_bytes},
                {exposed_ms: -c.exposed_ms, kind: s.collective, size_bytes: s.message_bytes}
            ) AS most,
            max(c.exposed_ms) AS most_ms,
            sum(c.calls ORDER BY s.collective, s.message_bytes) AS calls,
            sum(c.transfer_ms ORDER BY s.collective, s.message_bytes) AS transfer_ms,
            sum(c.calls * s.needed_ms ORDER BY s.collective, s.message_bytes) AS needed_ms,
            sum(c.exposed_ms ORDER BY s.collective, s.message_bytes) AS exposed_ms,
            sum(c.calls * s.others_exposed_ms ORDER BY s.collective, s.message_bytes)
                AS others_exposed_ms
        FROM slow AS s
        INNER JOIN calls AS c
            ON c.trace = s.trace
            AND c.collective = s.collective
            AND c.group_key = s.group_key
            AND c.dim IS NOT DISTINCT FROM s.dim
            AND c.group_size IS NOT DISTINCT FROM s.group_size
            AND c.message_bytes = s.message_bytes
            AND c.link IS NOT DISTINCT FROM s.link
        GROUP BY c.trace, c.rank, s.group_key, against_groups, fit_kind, fit_bytes
    ),

    -- A slow call pushes back those behind it on its stream: sizes are not bounded one by one.
    found AS (
        SELECT
            trace, group_key, against_groups, any_value(pg_desc) AS pg_desc,
            max(other_count) AS other_count, min(rank) AS first_rank, any_value(kinds) AS kinds,
            arg_min(most, {most_ms: -most_ms, rank: rank}) AS most,
            avg(calls ORDER BY rank) AS calls, avg(transfer_ms ORDER BY rank) AS transfer_ms,
            avg(needed_ms ORDER BY rank) AS needed_ms, avg(exposed_ms ORDER BY rank) AS exposed_ms,
            avg(
                least(exposed_ms - others_exposed_ms, transfer_ms - needed_ms) ORDER BY rank
            ) AS gain_ms
        FROM per_rank
        GROUP BY trace, group_key, against_groups, fit_kind, fit_bytes
    )

SELECT
    f.trace,
    printf(
        '%s of %s%s take %.1f times what %s (%.3f ms against %.3f ms %s, %.0f calls); %.3f ms of it are exposed',
        f.kinds, coalesce(f.pg_desc || ' ', 'a group '), coalesce(g.pg_ranks, 'that is not stated'),
        f.transfer_ms / f.needed_ms,
        CASE
            WHEN NOT f.against_groups THEN 'their fit says'
            WHEN f.other_count = 1 THEN 'the other group needs'
            ELSE f.other_count || ' other groups need'
        END,
        f.transfer_ms, f.needed_ms, w.of_what, f.calls, f.exposed_ms
    ) AS finding,
    {
        "group": coalesce(f.pg_desc || ' ', '') || g.pg_ranks, kind: f.most.kind,
        size_bytes: f.most.size_bytes
    } AS "where",
    f.exposed_ms AS time_per_step_ms,
    f.gain_ms,
    [
        l.steps_limit, l.matches_limit, doubts.doubts_limit,
        CASE WHEN f.against_groups AND f.other_count = 1 THEN 'only one other group is like it' END
    ] AS limits,
    CASE
        WHEN f.against_groups
            THEN 'look at the path between these ranks: NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=GRAPH,NET (which network cards, NVLink or PCIe), nvidia-smi topo -m and nvlink -e, ibstat (rate, errors), and nccl-tests on these devices alone; and at ranks placed over racks'
        ELSE 'one size is off the line of the others: compare algorithms and protocols in nccl-tests (NCCL_ALGO, NCCL_PROTO), and the tuner plugin; if it comes at one place of the step, something else uses the link'
    END AS advice,
    'SELECT pg_id, pg_desc, collective, group_size, message_bytes, sum(transfer_ms) / sum(calls) AS one_call_ms, avg(exposed_ms) AS exposed_ms FROM _exposed_transfers WHERE trace = {trace} GROUP BY ALL ORDER BY collective, message_bytes, one_call_ms DESC'
        AS evidence
FROM found AS f
LEFT JOIN _group_names AS g ON g.trace = f.trace AND g.pg_id = f.group_key
INNER JOIN _wording AS w ON w.trace = f.trace
INNER JOIN _diagnosis_limits AS l ON l.trace = f.trace
LEFT JOIN _match_doubts AS doubts ON doubts.trace = f.trace
WHERE f.gain_ms > 0
QUALIFY row_number() OVER (
    PARTITION BY f.trace ORDER BY f.gain_ms DESC, f.group_key, f.most.kind, f.most.size_bytes
) <= 3
