-- @view     _fsdp_calls
-- @summary  All-gathers and reductions that ranges of FSDP launched on devices, with the part of
--           their transfer beside which no compute runs.
-- @materialize session
-- @requires fsdp_steps collectives launches host_ranges host_events busy_intervals
-- @reads    collective_calls range_patterns
-- @caveat   kind is gather or reduce (reduce_scatter, and all_reduce over replicas). phase is
--           backward where a range around the launch says so, else forward. A call that is not
--           matched over the ranks transfers all of its time, waiting included: is_matched. compute
--           before a time (start_compute_ns, end_compute_ns) counts from the first event of the
--           device on.
WITH RECURSIVE
    calls AS (
        SELECT
            c.trace, c.rank, c.device, c.event_id, c.step, c.collective, c.message_bytes,
            c.ts_ns AS start_ns, c.ts_ns + c.dur_ns AS end_ns,
            greatest(c.ts_ns, c.ts_ns + c.dur_ns - coalesce(m.transfer_ns, c.dur_ns)) AS transfer_start_ns,
            m.transfer_ns IS NOT NULL AS is_matched,
            l.range_event_id
        FROM collectives AS c
        INNER JOIN launches AS l
            ON l.trace = c.trace AND l.event_id = c.event_id AND l.rank = c.rank
        LEFT JOIN collective_calls AS m
            ON m.trace = c.trace AND m.collective_id = c.collective_id
        WHERE c.collective IN ('all_gather', 'reduce_scatter', 'all_reduce')
            AND c.dur_ns > 0
            AND c.device IS NOT NULL
            AND l.range_event_id IS NOT NULL
            AND EXISTS (SELECT 1 FROM fsdp_steps AS f WHERE f.trace = c.trace)
    ),

    -- The annotations around each launch, from the innermost outwards.
    around AS (
        SELECT DISTINCT trace, rank, range_event_id, range_event_id AS event_id, 1 AS depth
        FROM calls
        UNION ALL
        SELECT a.trace, a.rank, a.range_event_id, r.parent_event_id, a.depth + 1
        FROM around AS a
        INNER JOIN host_ranges AS r
            ON r.trace = a.trace AND r.rank = a.rank AND r.event_id = a.event_id
            AND r.kind = 'annotation'
        WHERE r.parent_event_id IS NOT NULL AND a.depth < 256
    ),

    named AS (
        SELECT a.trace, a.range_event_id, a.depth, h.name
        FROM around AS a
        INNER JOIN host_events AS h
            ON h.trace = a.trace AND h.event_id = a.event_id AND h.rank = a.rank
    ),

    fsdp_names AS (
        SELECT DISTINCT n.name
        FROM (SELECT DISTINCT name FROM named) AS n
        INNER JOIN range_patterns AS p ON p.purpose = 'fsdp' AND n.name LIKE p.pattern
    ),

    placed AS (
        SELECT
            n.trace, n.range_event_id,
            CASE WHEN bool_or(lower(n.name) LIKE '%backward%') THEN 'backward' ELSE 'forward' END
                AS phase
        FROM named AS n
        INNER JOIN fsdp_names AS f ON f.name = n.name
        GROUP BY n.trace, n.range_event_id
    ),

    -- Disjoint spans of compute, and how much of it lies before each of them.
    computes AS (
        SELECT
            trace, rank, device, start_ns, end_ns,
            sum(end_ns - start_ns) OVER (
                PARTITION BY trace, rank, device ORDER BY start_ns
            ) - (end_ns - start_ns) AS before_ns
        FROM busy_intervals
        WHERE class = 'compute' AND EXISTS (SELECT 1 FROM calls)
    ),

    timed AS (
        SELECT
            c.trace, c.rank, c.device, c.event_id, c.step, c.collective, c.message_bytes, p.phase,
            c.start_ns, c.end_ns, c.transfer_start_ns, c.is_matched,
            coalesce(s.before_ns + least(c.start_ns, s.end_ns) - s.start_ns, 0) AS start_compute_ns,
            coalesce(t.before_ns + least(c.transfer_start_ns, t.end_ns) - t.start_ns, 0)
                AS transfer_compute_ns,
            coalesce(e.before_ns + least(c.end_ns, e.end_ns) - e.start_ns, 0) AS end_compute_ns
        FROM calls AS c
        INNER JOIN placed AS p ON p.trace = c.trace AND p.range_event_id = c.range_event_id
        ASOF LEFT JOIN computes AS s
            ON s.trace = c.trace AND s.rank = c.rank AND s.device = c.device
            AND s.start_ns <= c.start_ns
        ASOF LEFT JOIN computes AS t
            ON t.trace = c.trace AND t.rank = c.rank AND t.device = c.device
            AND t.start_ns <= c.transfer_start_ns
        ASOF LEFT JOIN computes AS e
            ON e.trace = c.trace AND e.rank = c.rank AND e.device = c.device
            AND e.start_ns <= c.end_ns
    )

SELECT
    trace, rank, device, event_id, step,
    CASE collective WHEN 'all_gather' THEN 'gather' ELSE 'reduce' END AS kind, collective, phase,
    message_bytes, start_ns, end_ns, is_matched, end_ns - transfer_start_ns AS transfer_ns,
    CAST(end_ns - transfer_start_ns - (end_compute_ns - transfer_compute_ns) AS BIGINT)
        AS exposed_ns,
    CAST(start_compute_ns AS BIGINT) AS start_compute_ns,
    CAST(end_compute_ns AS BIGINT) AS end_compute_ns
FROM timed
