-- @diagnosis data_loading
-- @version  1
-- @summary  Devices are idle while the host loads data.
-- @profilers kineto nsys
-- @requires device_events launches _cost_bounds
-- @reads    phases _idle_labels _rank_account _diagnosis_limits host_events
-- @check    (SELECT count(*) FROM device_events WHERE source <> 'xla') > 0
--           | XLA launches whole programs, so that its device events have no launches of their own
-- @reason   (SELECT CASE WHEN count(*) = 0 THEN 'no range of the host says that data is loaded' END
--           FROM phases WHERE phase = 'data_loading')
--           | no range of the host says that data is loaded
-- @gain     the part data_loading of step_account gone on all ranks: a rank loses that time, and of
--           its exposed waiting for another rank no more than that one loses; the step loses what
--           the rank loses that loses least
-- @shown    idle_causes
-- @caveat   What the step loses as one rank alone loads longer than the others is in late_rank, and
--           not here. Data that is loaded in a range which does not say so is in host_stalls.
-- @source   step_account
WITH
    loaders AS (
        SELECT
            trace, bool_or(name LIKE '%\_SingleProcessDataLoaderIter%' ESCAPE '\') AS is_single
        FROM host_events
        WHERE name LIKE 'enumerate(DataLoader)#%'
        GROUP BY trace
    ),

    ranks AS (
        SELECT
            a.trace, string_agg(CAST(a.rank AS VARCHAR), ', ' ORDER BY a.rank) AS ranks
        FROM _rank_account AS a
        INNER JOIN _cost_bounds AS b
            ON b.trace = a.trace AND b.subject = 'part' AND b.key = a.part
        WHERE a.part = 'data_loading' AND a.time_ms >= b.most_ms / 2
        GROUP BY a.trace
    ),

    loads AS (
        SELECT trace, rank, sum(dur_ns) AS load_ns
        FROM phases
        WHERE phase = 'data_loading'
        GROUP BY trace, rank
    ),

    -- Whether the hosts of most ranks load at least half as long as that of the rank that idles
    -- most for it: then the others hide it behind their waiting.
    hosts AS (
        SELECT
            b.trace, median(coalesce(o.load_ns, 0)) >= any_value(m.load_ns) / 2 AS is_alike
        FROM _cost_bounds AS b
        INNER JOIN loads AS m ON m.trace = b.trace AND m.rank = b.most_rank
        INNER JOIN (SELECT DISTINCT trace, rank FROM _rank_account) AS r
            ON r.trace = b.trace AND r.rank <> b.most_rank
        LEFT JOIN loads AS o ON o.trace = r.trace AND o.rank = r.rank
        WHERE b.subject = 'part' AND b.key = 'data_loading'
        GROUP BY b.trace
    ),

    totals AS (
        SELECT trace, max(longest_ms) AS longest_ms
        FROM _idle_labels
        WHERE part = 'data_loading' AND kind = 'all'
        GROUP BY trace
    )

SELECT
    b.trace,
    printf(
        'devices wait for data: %.3f ms of a step idle (%.1f %%)%s%s, the longest time at once %.3f ms%s',
        b.own_ms, 100 * b.own_ms / b.step_ms,
        CASE WHEN b.rank_count > 1
            THEN printf(
                ', up to %.3f ms (rank %d), mostly on rank%s %s', b.most_ms, b.most_rank,
                CASE WHEN r.ranks LIKE '%,%' THEN 's' ELSE '' END,
                CASE WHEN length(r.ranks) <= 40 THEN r.ranks
                    ELSE regexp_extract(left(r.ranks, 41), '^(.*),', 1) || ', ...'
                END
            )
            ELSE ''
        END,
        CASE WHEN h.is_alike AND b.own_ms < b.most_ms / 2
            THEN ' (the others load as well, hidden behind their waiting)'
            ELSE ''
        END,
        coalesce(t.longest_ms, 0),
        CASE WHEN d.is_single THEN '; the DataLoader runs in the training process (num_workers=0)'
            ELSE ''
        END
    ) AS finding,
    {
        rank: CASE
            WHEN b.rank_count > 1 AND r.ranks NOT LIKE '%,%' AND h.is_alike IS NOT TRUE
                THEN b.most_rank
        END,
        phase: 'data_loading'
    } AS "where",
    b.time_ms AS time_per_step_ms,
    b.gain_ms,
    [l.steps_limit, l.launches_limit, l.matches_limit] AS limits,
    CASE
        WHEN d.is_single THEN 'load in processes of their own: DataLoader(num_workers=4 or more, persistent_workers=True, pin_memory=True), then copy with non_blocking=True'
        ELSE 'DataLoader: more num_workers, a larger prefetch_factor, persistent_workers=True and pin_memory=True, copies with non_blocking=True on a stream of their own; decode and tokenise beforehand, and look whether the storage or the cores keep up'
    END AS advice,
    'SELECT rank, part, time_ms, step_ms FROM _rank_account WHERE trace = {trace} AND part = ''data_loading'' ORDER BY time_ms DESC'
        AS evidence
FROM _cost_bounds AS b
INNER JOIN _diagnosis_limits AS l ON l.trace = b.trace
LEFT JOIN ranks AS r ON r.trace = b.trace
LEFT JOIN totals AS t ON t.trace = b.trace
LEFT JOIN hosts AS h ON h.trace = b.trace
LEFT JOIN loaders AS d ON d.trace = b.trace
WHERE b.subject = 'part' AND b.key = 'data_loading' AND b.gain_ms > 0
