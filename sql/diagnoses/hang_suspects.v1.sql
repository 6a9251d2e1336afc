-- @diagnosis hang_suspects
-- @version  1
-- @summary  Calls of a rank do not fit those of its process group: where they meet, the job hangs.
-- @profilers kineto nsys xla
-- @requires collectives
-- @reads    _hang_kinds _hang_members _hang_misses _hang_waits process_groups ranks
-- @param    long_factor DOUBLE 10 | A rank sat and waited in a call after its last matched one that
--           lasts so many times the median of the matched calls of that kind in the group (none: of
--           the group; none: of the trace).
-- @gain     none: it is no time of a step
-- @shown    hang_suspects
-- @check    (SELECT count(DISTINCT rank) FROM ranks) > 1 | a single rank was ingested
-- @check    (SELECT count(*) FROM collectives WHERE collective NOT IN ('send', 'recv', 'send_recv',
--           'unknown')) > 0
--           | the trace has no calls that all ranks of a group make
-- @check    (SELECT count(*) FROM _hang_members) > 0
--           | no process group has calls of two ingested ranks
-- @caveat   Calls that a rank lacks before its first or after its last one are no suspicion, unless
--           another rank sits and waits in one of them: recordings begin and end at different
--           times. A rank that waits itself is a victim, unless all wait.
-- @source   as the metric hang_suspects
WITH
    waits AS (
        SELECT trace, pg_key, series, rank, spot, collective, dur_ns
        FROM _hang_waits
        WHERE dur_ns >= $long_factor * usual_ns
    ),

    waiting AS (
        SELECT DISTINCT trace, rank
        FROM waits
    ),

    misses AS (
        SELECT
            trace, pg_key, rank, sum(missing_inside) AS missing_inside,
            min(first_missing_seq) AS first_missing_seq
        FROM _hang_misses
        GROUP BY trace, pg_key, rank
    ),

    -- Of the calls in which another rank waits and that a rank does not make, the longest.
    stops AS (
        SELECT m.trace, m.pg_key, m.rank, w.rank AS waiting_rank, w.collective, w.dur_ns
        FROM _hang_members AS m
        LEFT JOIN _hang_misses AS s
            ON s.trace = m.trace AND s.pg_key = m.pg_key AND s.rank = m.rank
        INNER JOIN waits AS w
            ON w.trace = m.trace AND w.pg_key = m.pg_key AND w.rank <> m.rank
            AND (m.calls IS NULL OR (w.series = s.series AND w.spot > s.last_spot))
        QUALIFY row_number() OVER (
            PARTITION BY m.trace, m.pg_key, m.rank
            ORDER BY w.dur_ns DESC, w.rank, w.collective, w.spot
        ) = 1
    ),

    judged AS (
        SELECT
            m.trace, m.pg_key, m.rank,
            CASE
                WHEN k.wrong_kind IS NOT NULL THEN 1
                WHEN i.missing_inside > 0 THEN 2
                WHEN s.rank IS NOT NULL THEN 3
            END AS fault,
            k.reason AS wrong_kind, i.missing_inside, i.first_missing_seq, s.waiting_rank,
            s.collective, s.dur_ns, x.rank IS NOT NULL AS waits_itself
        FROM _hang_members AS m
        LEFT JOIN _hang_kinds AS k
            ON k.trace = m.trace AND k.pg_key = m.pg_key AND k.rank = m.rank
        LEFT JOIN misses AS i ON i.trace = m.trace AND i.pg_key = m.pg_key AND i.rank = m.rank
        LEFT JOIN stops AS s ON s.trace = m.trace AND s.pg_key = m.pg_key AND s.rank = m.rank
        LEFT JOIN waiting AS x ON x.trace = m.trace AND x.rank = m.rank
    ),

    -- Traces in which a rank waits in a group that others than those ingested are in.
    outside AS (
        SELECT DISTINCT w.trace
        FROM waits AS w
        LEFT JOIN (SELECT DISTINCT trace, pg_key, ranks_compared FROM _hang_members) AS m
            ON m.trace = w.trace AND m.pg_key = w.pg_key
        LEFT JOIN process_groups AS p ON p.trace = w.trace AND p.pg_id = w.pg_key
        WHERE m.ranks_compared IS DISTINCT FROM p.group_size
    ),

    -- A rank that stops and waits itself is a victim, unless they all do, in a circle.
    suspects AS (
        SELECT
            trace, pg_key, rank, fault, wrong_kind, missing_inside, first_missing_seq, waiting_rank,
            collective, dur_ns,
            bool_and(waits_itself AND fault = 3) OVER (PARTITION BY trace)
                AND NOT EXISTS (SELECT 1 FROM outside AS o WHERE o.trace = judged.trace) AS in_circle
        FROM judged
        WHERE fault IS NOT NULL
        QUALIFY fault < 3 OR NOT waits_itself OR in_circle
    ),

    -- One for each fault of a group.
    groups AS (
        SELECT
            trace, pg_key, fault, bool_or(in_circle) AS in_circle, count(DISTINCT rank) AS rank_count,
            arg_min(
                {
                    rank: rank, wrong_kind: wrong_kind, missing_inside: missing_inside,
                    first_missing_seq: first_missing_seq, waiting_rank: waiting_rank,
                    collective: collective, dur_ns: dur_ns
                }, rank
            ) AS item
        FROM suspects
        GROUP BY trace, pg_key, fault
    ),

    -- What one rank does wrong may show in several groups.
    firsts AS (
        SELECT trace, pg_key, fault, in_circle, rank_count, item
        FROM groups
        QUALIFY row_number() OVER (
            PARTITION BY trace, fault, item.rank ORDER BY rank_count, pg_key
        ) = 1
    )

SELECT
    g.trace,
    'rank ' || g.item.rank
        || CASE g.fault
            WHEN 1 THEN ' ' || g.item.wrong_kind
            WHEN 2 THEN printf(
                ' lacks %d calls between its own, the first has sequence number %d',
                CAST(g.item.missing_inside AS BIGINT), g.item.first_missing_seq
            )
            ELSE printf(
                ' does not make the %s in which rank %d sits for %.3f ms', g.item.collective,
                g.item.waiting_rank, g.item.dur_ns / 1e6
            )
        END
        || CASE WHEN g.rank_count > 1 THEN printf('; %d ranks of the group do so', g.rank_count) ELSE '' END
        || CASE WHEN g.in_circle THEN '; the ranks wait for each other in a circle' ELSE '' END
        AS finding,
    {rank: g.item.rank, "group": coalesce(p.pg_desc, p.pg_name)} AS "where",
    CAST(NULL AS DOUBLE) AS time_per_step_ms,
    CAST(NULL AS DOUBLE) AS gain_ms,
    [
        CASE WHEN g.pg_key = 0 THEN 'the trace does not state the process groups of these calls' END
    ] AS limits,
    CASE g.fault
        WHEN 3
            THEN 'look for what that rank does after its last call: an exception, a data loader that ran out, a branch that only some ranks take, another order of groups'
        ELSE 'look for a branch that only some ranks take around a collective (if rank == 0, uneven batches without Join, conditional logging or checkpointing), and for another order of calls or groups'
    END
        || '; TORCH_DISTRIBUTED_DEBUG=DETAIL checks each call over the ranks, the flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE=2000, in newer versions TORCH_FR_BUFFER_SIZE, and TORCH_NCCL_DUMP_ON_TIMEOUT=1) says what was called last'
        AS advice,
    'SELECT m.rank, m.calls, m.matched_calls, m.calls_by_kind, s.missing_begin, s.missing_inside, s.missing_end FROM _hang_members AS m LEFT JOIN _hang_misses AS s USING (trace, pg_key, rank) WHERE m.trace = {trace} AND m.pg_key = '
        || g.pg_key || ' ORDER BY m.rank' AS evidence
FROM firsts AS g
LEFT JOIN process_groups AS p ON p.trace = g.trace AND p.pg_id = g.pg_key
QUALIFY row_number() OVER (PARTITION BY g.trace ORDER BY g.fault, g.rank_count, g.pg_key) <= 3
