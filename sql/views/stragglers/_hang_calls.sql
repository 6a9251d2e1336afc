-- @view     _hang_calls
-- @summary  Calls that all ranks of a group make, in the order in which each rank launched them.
-- @materialize session
-- @requires collectives ranks
-- @reads    _call_launches
-- @caveat   pg_key is 0 where the trace states no group: the ranks that make such calls count as
--           one group, and each kind is a series by itself. Calls of a group of some of the ranks
--           only whose ranks nobody knows are left out. loose: the launch is unknown or shared
--           (CUDA graph), so that the place among calls of other streams is not known. has_seq:
--           every call of the group has a sequence number.
WITH
    rank_counts AS (
        SELECT trace, source, count(DISTINCT rank) AS rank_count
        FROM ranks
        GROUP BY trace, source
    ),

    shares AS (
        SELECT
            c.trace, c.rank, c.device, c.stream, c.event_id, c.collective, c.ts_ns, c.dur_ns,
            c.collective_id, l.launch_ts_ns,
            coalesce(c.pg_id, 0) AS pg_key,
            CASE WHEN c.pg_id IS NOT NULL THEN c.seq END AS seq,
            CASE WHEN c.pg_id IS NOT NULL THEN '' ELSE c.collective END AS series
        FROM collectives AS c
        INNER JOIN rank_counts AS n ON n.trace = c.trace AND n.source = c.source
        LEFT JOIN _call_launches AS l ON l.trace = c.trace AND l.event_id = c.event_id
        WHERE c.collective NOT IN ('send', 'recv', 'send_recv', 'unknown')
            AND c.dur_ns IS NOT NULL
            AND (
                c.pg_id IS NOT NULL OR c.group_size IS NULL OR c.group_size >= n.rank_count
            )
    ),

    -- NCCL must be called in one order on all ranks, and streams may turn it round on the device:
    -- the order of the launches. What has none comes after what its stream ran before it; at the
    -- front that was launched before the recording began.
    launched AS (
        SELECT
            trace, rank, pg_key, series, device, stream, event_id, collective, ts_ns, dur_ns, seq,
            collective_id,
            coalesce(
                launch_ts_ns,
                max(launch_ts_ns) OVER (
                    PARTITION BY trace, rank, pg_key, device, stream ORDER BY ts_ns, event_id
                    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                )
            ) AS order_ns,
            launch_ts_ns IS NULL
                OR count(*) OVER (PARTITION BY trace, rank, pg_key, launch_ts_ns) > 1 AS loose
        FROM shares
    )

SELECT
    trace, rank, pg_key, series, device, stream, event_id, collective, ts_ns, dur_ns, seq,
    collective_id, loose,
    row_number() OVER (
        PARTITION BY trace, rank, pg_key, series ORDER BY order_ns NULLS FIRST, ts_ns, event_id
    ) AS place,
    row_number() OVER (
        PARTITION BY trace, rank, pg_key
        ORDER BY order_ns DESC NULLS LAST, ts_ns DESC, event_id DESC
    ) = 1 AS is_last,
    bool_and(seq IS NOT NULL) OVER (PARTITION BY trace, pg_key) AS has_seq
FROM launched
