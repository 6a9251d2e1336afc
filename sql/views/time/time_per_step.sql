-- @view     time_per_step
-- @summary  What a step of the devices consists of: mean over the steps that count, then over
--           ranks; of the whole trace where there are no steps.
-- @requires _windows busy_intervals
-- @reads    steps collectives collective_calls
-- @null     no rank with steps has a device
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   part VARCHAR dim - | step: all of it. It is the sum of compute; exposed_comm:
--           communication without compute; exposed_other: copies, sets and graphs without both;
--           idle: nothing. Of exposed_comm exposed_transfer and exposed_wait: a matched call
--           transfers for as long as the shortest of its events, at the end of each, and waits
--           before. Beside them comm (hidden or not) and hidden_comm (with compute beside it).
-- @column   per VARCHAR value - | step, or trace.
-- @column   time_ms DOUBLE value ms lower | Time; of a rank with several devices their mean.
-- @column   share_pct DOUBLE value pct | Share of the step; of hidden_comm, of comm.
-- @column   window_count BIGINT value count | Steps of the rank that has most of them.
-- @column   num_ranks BIGINT value count | Ranks.
-- @column   split_pct DOUBLE value pct | Of exposed_comm, the share that exposed_transfer and
--           exposed_wait are; the rest are calls that are not matched over the ranks. Where none is
--           matched, both are NULL.
-- @caveat   Steps are those of avg_step_time, by the host: what the host launched before the end of
--           a step and the device runs later is in the next one.
-- @source   metrics 2.A (steps from start to start; of more than two neither the first nor the
--           last) and 2.E (unions per rank and device)
WITH
    ordered AS (
        SELECT
            trace, rank, ts_ns, dur_ns,
            row_number() OVER (PARTITION BY trace, rank ORDER BY ts_ns, step) AS place,
            count(*) OVER (PARTITION BY trace, rank) AS step_count,
            lead(ts_ns) OVER (PARTITION BY trace, rank ORDER BY ts_ns, step) AS next_ts_ns
        FROM steps
        WHERE rank IS NOT NULL
    ),

    kept AS (
        SELECT trace, rank, ts_ns AS start_ns, coalesce(next_ts_ns, ts_ns + dur_ns) AS end_ns
        FROM ordered
        WHERE step_count <= 2 OR (place > 1 AND place < step_count)
    ),

    windows AS (
        SELECT trace, rank, 'step' AS per, start_ns, end_ns
        FROM kept
        WHERE end_ns > start_ns
        UNION ALL
        SELECT w.trace, w.rank, 'trace', w.start_ns, w.end_ns
        FROM _windows AS w
        WHERE w.basis = 'device'
            AND w.end_ns > w.start_ns
            AND NOT EXISTS (SELECT 1 FROM kept AS k WHERE k.trace = w.trace AND k.end_ns > k.start_ns)
    ),

    -- A matched call transfers for as long as its shortest event, at the end of each of its events;
    -- before that the rank waits for the others.
    shares AS (
        SELECT
            c.trace, c.rank, coalesce(c.device, -1) AS device_key,
            c.ts_ns AS start_ns, c.ts_ns + c.dur_ns AS end_ns,
            greatest(c.ts_ns, c.ts_ns + c.dur_ns - m.transfer_ns) AS transfer_ns
        FROM collectives AS c
        INNER JOIN collective_calls AS m
            ON m.trace = c.trace AND m.source = c.source AND m.collective_id = c.collective_id
        WHERE c.dur_ns > 0 AND m.transfer_ns IS NOT NULL
    ),

    calls AS (
        SELECT
            trace, rank, device_key,
            array_agg({start_ns: start_ns, end_ns: end_ns}) AS matched,
            array_agg({start_ns: transfer_ns, end_ns: end_ns}) AS transfers
        FROM shares
        GROUP BY trace, rank, device_key
    ),

    lists AS (
        SELECT
            trace, rank, coalesce(device, -1) AS device_key,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'comm'), []) AS comm,
            coalesce(array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class = 'compute'), []) AS comp,
            coalesce(
                array_agg({start_ns: start_ns, end_ns: end_ns}) FILTER (WHERE class IN ('comm', 'compute')), []
            ) AS kernels,
            array_agg({start_ns: start_ns, end_ns: end_ns}) AS busy
        FROM busy_intervals
        WHERE rank IS NOT NULL
        GROUP BY trace, rank, device_key
    ),

    pieces AS (
        SELECT trace, rank, device_key, 'compute' AS part, unnest(interval_union(comp)) AS span
        FROM lists
        UNION ALL
        SELECT trace, rank, device_key, 'comm', unnest(interval_union(comm))
        FROM lists
        UNION ALL
        SELECT trace, rank, device_key, 'exposed_comm', unnest(interval_subtract(comm, comp))
        FROM lists
        UNION ALL
        SELECT trace, rank, device_key, 'busy', unnest(interval_union(busy))
        FROM lists
        UNION ALL
        SELECT
            l.trace, l.rank, l.device_key, 'exposed_transfer',
            unnest(interval_subtract(interval_intersect(c.transfers, l.comm), l.comp))
        FROM lists AS l
        INNER JOIN calls AS c
            ON c.trace = l.trace AND c.rank = l.rank AND c.device_key = l.device_key
        UNION ALL
        SELECT
            l.trace, l.rank, l.device_key, 'exposed_wait',
            unnest(
                interval_subtract(
                    interval_intersect(interval_subtract(c.matched, c.transfers), l.comm), l.comp
                )
            )
        FROM lists AS l
        INNER JOIN calls AS c
            ON c.trace = l.trace AND c.rank = l.rank AND c.device_key = l.device_key
    ),

    -- Disjoint spans, and how much of its kind lies before each of them.
    spans AS (
        SELECT
            trace, rank, device_key, part, span.start_ns AS start_ns, span.end_ns AS end_ns,
            sum(span.end_ns - span.start_ns) OVER (
                PARTITION BY trace, rank, device_key, part ORDER BY span.start_ns
            ) - (span.end_ns - span.start_ns) AS before_ns
        FROM pieces
    ),

    parts AS (
        SELECT unnest(['compute', 'comm', 'exposed_comm', 'busy', 'exposed_transfer', 'exposed_wait']) AS part
    ),

    asked AS (
        SELECT w.trace, w.rank, w.per, l.device_key, p.part, w.start_ns, w.end_ns
        FROM windows AS w
        INNER JOIN lists AS l ON l.trace = w.trace AND l.rank = w.rank
        CROSS JOIN parts AS p
    ),

    -- Time up to the end of a window less time up to its start.
    inside AS (
        SELECT
            a.trace, a.rank, a.per, a.device_key, a.part, a.start_ns, a.end_ns,
            coalesce(e.before_ns + least(a.end_ns, e.end_ns) - e.start_ns, 0)
                - coalesce(s.before_ns + least(a.start_ns, s.end_ns) - s.start_ns, 0) AS time_ns
        FROM asked AS a
        ASOF LEFT JOIN spans AS s
            ON s.trace = a.trace AND s.rank = a.rank AND s.device_key = a.device_key
            AND s.part = a.part AND s.start_ns <= a.start_ns
        ASOF LEFT JOIN spans AS e
            ON e.trace = a.trace AND e.rank = a.rank AND e.device_key = a.device_key
            AND e.part = a.part AND e.start_ns <= a.end_ns
    ),

    rank_means AS (
        SELECT
            trace, rank, per, part,
            count(DISTINCT start_ns) AS window_count,
            sum(end_ns - start_ns) / 1e6 / count(*) AS window_ms,
            sum(time_ns) / 1e6 / count(*) AS time_ms
        FROM inside
        GROUP BY trace, rank, per, part
    ),

    means AS (
        SELECT
            trace, per,
            max(window_count) AS window_count,
            count(DISTINCT rank) AS num_ranks,
            avg(window_ms ORDER BY rank) FILTER (WHERE part = 'busy') AS step_ms,
            avg(time_ms ORDER BY rank) FILTER (WHERE part = 'busy') AS busy_ms,
            avg(time_ms ORDER BY rank) FILTER (WHERE part = 'compute') AS compute_ms,
            avg(time_ms ORDER BY rank) FILTER (WHERE part = 'comm') AS comm_ms,
            avg(time_ms ORDER BY rank) FILTER (WHERE part = 'exposed_comm') AS exposed_comm_ms,
            avg(time_ms ORDER BY rank) FILTER (WHERE part = 'exposed_transfer') AS exposed_transfer_ms,
            avg(time_ms ORDER BY rank) FILTER (WHERE part = 'exposed_wait') AS exposed_wait_ms
        FROM rank_means
        GROUP BY trace, per
    ),

    split AS (
        SELECT
            trace, per, window_count, num_ranks, step_ms, busy_ms, compute_ms, comm_ms, exposed_comm_ms,
            exposed_transfer_ms, exposed_wait_ms,
            100 * (exposed_transfer_ms + exposed_wait_ms) / nullif(exposed_comm_ms, 0) AS split_pct
        FROM means
    ),

    items AS (
        SELECT
            trace, per, window_count, num_ranks, step_ms, comm_ms, split_pct,
            unnest([
                {place: 1, part: 'step', time_ms: step_ms},
                {place: 2, part: 'compute', time_ms: compute_ms},
                {place: 3, part: 'exposed_comm', time_ms: exposed_comm_ms},
                {place: 4, part: 'exposed_transfer', time_ms: CASE WHEN split_pct > 0 THEN exposed_transfer_ms END},
                {place: 5, part: 'exposed_wait', time_ms: CASE WHEN split_pct > 0 THEN exposed_wait_ms END},
                {place: 6, part: 'exposed_other', time_ms: busy_ms - compute_ms - exposed_comm_ms},
                {place: 7, part: 'idle', time_ms: step_ms - busy_ms},
                {place: 8, part: 'comm', time_ms: comm_ms},
                {place: 9, part: 'hidden_comm', time_ms: comm_ms - exposed_comm_ms}
            ]) AS item
        FROM split
    )

SELECT
    trace, item.part AS part, per, item.time_ms AS time_ms,
    100 * item.time_ms / nullif(CASE item.part WHEN 'hidden_comm' THEN comm_ms ELSE step_ms END, 0) AS share_pct,
    window_count, num_ranks,
    CASE WHEN item.part = 'exposed_comm' THEN split_pct END AS split_pct
FROM items
ORDER BY trace, item.place
