-- @view     _wait_causes
-- @summary  How long the ranks of matched calls wait for each rank, how much of that the rank hands
--           on because it waited itself, and to which rank all waiting goes back.
-- @materialize session
-- @requires _waits
-- @reads    _hidden_waits
-- @caveat   Two rows for each rank, aligned false and true (see _clock_shifts). Handed on is
--           inferred from times: the last rank of a call came late because of another as far as it
--           had waited longer than the rank that waits now, since it last met all ranks of the
--           call. What compute hides of a wait delays nobody, and a call in which compute hides
--           most of the waiting is no meeting and delays nobody. Over several hops it is spread by
--           the totals of the ranks, not call by call. Of a rank in more than 32 groups the busiest
--           32 count.
-- @source   delays and propagating wait states (Böhme, Geimer, Wolf, Arnold 2010, Identifying the
--           root causes of wait states in large-scale parallel applications)
WITH RECURSIVE
    exposed AS (
        SELECT
            w.trace, w.collective_id, w.rank, w.ts_ns, w.dur_ns, w.wait_ns, w.aligned, w.last_rank,
            w.is_last,
            w.wait_ns - coalesce(CASE WHEN w.aligned THEN h.aligned_ns ELSE h.recorded_ns END, 0)
                AS exposed_ns
        FROM _waits AS w
        LEFT JOIN _hidden_waits AS h
            ON h.trace = w.trace AND h.collective_id = w.collective_id AND h.rank = w.rank
    ),

    -- A group is the set of ranks of a call, whatever it is called.
    call_groups AS (
        SELECT trace, collective_id, count(*) AS group_size, bit_xor(hash(rank)) AS group_key
        FROM _waits
        WHERE NOT aligned
        GROUP BY trace, collective_id
    ),

    rank_groups AS MATERIALIZED (
        SELECT w.trace, w.rank, g.group_key, g.group_size
        FROM _waits AS w
        INNER JOIN call_groups AS g ON g.trace = w.trace AND g.collective_id = w.collective_id
        WHERE NOT w.aligned
        GROUP BY w.trace, w.rank, g.group_key, g.group_size
        QUALIFY row_number() OVER (
            PARTITION BY w.trace, w.rank ORDER BY count(*) DESC, g.group_key
        ) <= 32
    ),

    -- Groups all of whose ranks are in another: who leaves a call of that one has met them all.
    contained AS MATERIALIZED (
        SELECT i.trace, i.group_key, o.group_key AS outer_key
        FROM rank_groups AS i
        INNER JOIN rank_groups AS o
            ON o.trace = i.trace AND o.rank = i.rank AND o.group_size >= i.group_size
        GROUP BY i.trace, i.group_key, i.group_size, o.group_key
        HAVING count(*) = i.group_size OR o.group_key = i.group_key
    ),

    -- Where most of a call is waiting and compute goes on beside it, its ranks are as far apart
    -- after it as before.
    meetings AS (
        SELECT
            trace, collective_id, aligned,
            sum(exposed_ns) * 2 >= sum(wait_ns) OR sum(wait_ns) * 2 <= sum(dur_ns) AS is_met
        FROM exposed
        WHERE NOT is_last
        GROUP BY trace, collective_id, aligned
    ),

    -- For each group of a rank: its waits, and the calls in which it meets all of the group.
    marks AS (
        SELECT
            e.trace, e.collective_id, e.rank, e.ts_ns, e.wait_ns, e.aligned, e.last_rank, e.is_last,
            r.group_key,
            CASE WHEN m.is_met THEN e.exposed_ns ELSE 0 END AS exposed_ns,
            g.group_key = r.group_key AS is_call,
            c.outer_key IS NOT NULL AND m.is_met AS is_meeting
        FROM exposed AS e
        INNER JOIN call_groups AS g ON g.trace = e.trace AND g.collective_id = e.collective_id
        INNER JOIN meetings AS m
            ON m.trace = e.trace AND m.collective_id = e.collective_id AND m.aligned = e.aligned
        INNER JOIN rank_groups AS r ON r.trace = e.trace AND r.rank = e.rank
        LEFT JOIN contained AS c
            ON c.trace = e.trace AND c.group_key = r.group_key AND c.outer_key = g.group_key
        WHERE (m.is_met AND e.exposed_ns > 0) OR c.outer_key IS NOT NULL
    ),

    sections AS (
        SELECT
            trace, collective_id, rank, ts_ns, wait_ns, aligned, last_rank, is_last, exposed_ns,
            group_key, is_call, is_meeting,
            coalesce(sum(CASE WHEN is_meeting THEN 1 ELSE 0 END) OVER (
                PARTITION BY trace, rank, aligned, group_key ORDER BY ts_ns, collective_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ), 0) AS section
        FROM marks
    ),

    -- For whom a rank waited between two meetings of a group, and how long.
    parts AS MATERIALIZED (
        SELECT
            trace, rank, aligned, group_key, section, last_rank, sum(exposed_ns) AS exposed_ns,
            sum(sum(exposed_ns)) OVER (
                PARTITION BY trace, rank, aligned, group_key, section
            ) AS section_ns
        FROM sections
        WHERE NOT is_meeting AND exposed_ns > 0
        GROUP BY trace, rank, aligned, group_key, section, last_rank
    ),

    shares AS (
        SELECT
            trace, collective_id, rank, wait_ns, aligned, is_last, group_key, section,
            coalesce(sum(exposed_ns) OVER (
                PARTITION BY trace, rank, aligned, group_key, section ORDER BY ts_ns, collective_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ), 0) AS before_ns
        FROM sections
        QUALIFY is_call
    ),

    calls AS (
        SELECT
            w.trace, w.collective_id, w.aligned, l.rank, l.group_key, l.section,
            sum(w.wait_ns) AS caused_ns,
            sum(least(w.wait_ns, greatest(l.before_ns - w.before_ns, 0))) AS handed_ns
        FROM shares AS w
        INNER JOIN shares AS l
            ON l.trace = w.trace AND l.collective_id = w.collective_id AND l.aligned = w.aligned
        WHERE l.is_last
        GROUP BY w.trace, w.collective_id, w.aligned, l.rank, l.group_key, l.section
    ),

    caused AS MATERIALIZED (
        SELECT
            trace, rank, aligned, CAST(sum(caused_ns) AS DOUBLE) AS caused_ns,
            CAST(sum(handed_ns) AS DOUBLE) AS handed_ns
        FROM calls
        GROUP BY trace, rank, aligned
    ),

    moves AS MATERIALIZED (
        SELECT
            c.trace, c.rank, c.aligned, p.last_rank AS to_rank,
            sum(
                c.handed_ns * (CAST(p.exposed_ns AS DOUBLE) / p.section_ns)
                ORDER BY c.collective_id
            ) AS moved_ns
        FROM calls AS c
        INNER JOIN parts AS p
            ON p.trace = c.trace
            AND p.rank = c.rank
            AND p.aligned = c.aligned
            AND p.group_key = c.group_key
            AND p.section = c.section
        WHERE c.handed_ns > 0
        GROUP BY c.trace, c.rank, c.aligned, p.last_rank
    ),

    -- What is waited for a rank, handed on until it stays. Below a nanosecond nothing is.
    flow AS (
        SELECT trace, rank, aligned, caused_ns AS flow_ns, 0 AS hop
        FROM caused
        UNION ALL
        SELECT
            f.trace, m.to_rank, f.aligned,
            sum(f.flow_ns * m.moved_ns / c.caused_ns ORDER BY f.rank), f.hop + 1
        FROM flow AS f
        INNER JOIN moves AS m
            ON m.trace = f.trace AND m.rank = f.rank AND m.aligned = f.aligned
        INNER JOIN caused AS c
            ON c.trace = f.trace AND c.rank = f.rank AND c.aligned = f.aligned
        WHERE f.flow_ns >= 1 AND f.hop < 100
        GROUP BY f.trace, m.to_rank, f.aligned, f.hop
    ),

    origins AS (
        SELECT
            f.trace, f.rank, f.aligned,
            sum(
                f.flow_ns * (1 - coalesce(c.handed_ns / nullif(c.caused_ns, 0), 0)) ORDER BY f.hop
            ) AS origin_ns
        FROM flow AS f
        LEFT JOIN caused AS c ON c.trace = f.trace AND c.rank = f.rank AND c.aligned = f.aligned
        GROUP BY f.trace, f.rank, f.aligned
    ),

    -- A victim hands on more than half; its cause is the rank that it waits for most, or whose
    -- victim that one is.
    victims AS MATERIALIZED (
        SELECT m.trace, m.rank, m.aligned, m.to_rank
        FROM moves AS m
        INNER JOIN caused AS c ON c.trace = m.trace AND c.rank = m.rank AND c.aligned = m.aligned
        WHERE c.handed_ns > c.caused_ns / 2
        QUALIFY row_number() OVER (
            PARTITION BY m.trace, m.rank, m.aligned ORDER BY m.moved_ns DESC, m.to_rank
        ) = 1
    ),

    chains AS (
        SELECT trace, rank, aligned, to_rank AS cause_rank, 0 AS hop
        FROM victims
        UNION ALL
        SELECT c.trace, c.rank, c.aligned, v.to_rank, c.hop + 1
        FROM chains AS c
        INNER JOIN victims AS v
            ON v.trace = c.trace AND v.rank = c.cause_rank AND v.aligned = c.aligned
        -- Ranks may be victims of each other.
        WHERE v.to_rank <> c.rank AND c.hop < 100
    ),

    causes AS (
        SELECT trace, rank, aligned, cause_rank
        FROM chains
        QUALIFY row_number() OVER (PARTITION BY trace, rank, aligned ORDER BY hop DESC) = 1
    ),

    ranks_waiting AS (
        SELECT DISTINCT trace, rank, aligned, by_itself
        FROM _waits
    )

SELECT
    r.trace, r.rank, r.aligned, r.by_itself,
    coalesce(c.caused_ns, 0) AS caused_ns,
    coalesce(c.handed_ns, 0) AS handed_ns,
    coalesce(o.origin_ns, 0) AS origin_ns,
    v.cause_rank
FROM ranks_waiting AS r
LEFT JOIN caused AS c ON c.trace = r.trace AND c.rank = r.rank AND c.aligned = r.aligned
LEFT JOIN origins AS o ON o.trace = r.trace AND o.rank = r.rank AND o.aligned = r.aligned
LEFT JOIN causes AS v ON v.trace = r.trace AND v.rank = r.rank AND v.aligned = r.aligned
