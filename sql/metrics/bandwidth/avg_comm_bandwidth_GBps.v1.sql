-- @metric   avg_comm_bandwidth_GBps
-- @version  1
-- @area     bandwidth
-- @summary  Bus bandwidth of the communication calls: sum of bus factor x message size / sum of
--           transfer time.
-- @grain    trace
-- @requires collectives
-- @reads    _comm_calls _comm_events _sized_calls bus_factors _size_reasons
-- @value    avg_comm_bandwidth_GBps
-- @coverage size_coverage_ratio | one message size of all ranks, group size and time are
-- @reason   (SELECT why FROM _size_reasons WHERE spoken = 'call')
--           | no call of more than one rank (beside barriers) states one size above 0 for all its
--           ranks and has a duration above 0
-- @null     no call of known size and time has a bus factor: its group size (-p n_chips=N gives it)
--           or its kind is unknown
-- @param    n_chips BIGINT NULL | Ranks of a group where the trace does not state them; then the
--           card counts.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   avg_comm_bandwidth_GBps DOUBLE value gb_per_s higher | Over the calls; the time of a
--           call is the least duration over its ranks.
-- @column   by_type MAP value gb_per_s | The same of each kind that counts.
-- @column   calls_with_size BIGINT value calls | Calls that count: message size, time and bus
--           factor are known.
-- @column   calls BIGINT value calls | Calls of more than one rank that are not known to be empty,
--           barriers left out: a matched call once (the message is the largest of a rank), an
--           unmatched event as it is.
-- @column   size_coverage_ratio DOUBLE value ratio | calls_with_size / calls.
-- @column   from_events_gb_per_s DOUBLE value gb_per_s | The same ratio over the events of all
--           ranks: waiting for late ranks included.
-- @warn     (SELECT count(*) FILTER (WHERE collective_id IS NULL) > 0.05 * count(*) FROM
--           _comm_events WHERE collective <> 'barrier' AND message_bytes > 0 AND group_size IS
--           DISTINCT FROM 1)
--           | calls that are not matched over the ranks hold the waiting for late ranks: the figure
--           is a lower bound
-- @warn     (SELECT sum(even_calls) < sum(filled_calls) FROM _sized_calls)
--           | all-to-alls whose splits differ have no bus bandwidth and do not count
-- @warn     $n_chips IS NOT NULL AND (SELECT count(*) FROM _comm_calls WHERE group_size IS NULL) =
--           0
--           | n_chips changes nothing: the trace states the group of each call, and that counts
-- @caveat   The tool that set the name takes (n - 1) for every bus factor and all chips for n, and
--           waiting for transfer: of an all_reduce its figure is n/2 times the bus bandwidth of its
--           events.
-- @source   nccl-tests doc/PERFORMANCE.md (bus factors); metrics 2.D avg_comm_bandwidth_GBps
--           (defects D34, D36)
WITH
    measured AS (
        SELECT
            trace, 'call' AS basis, collective, message_bytes, transfer_ns AS time_ns, uneven,
            coalesce(group_size, $n_chips, card_size) AS group_size
        FROM _comm_calls
        UNION ALL
        SELECT
            trace, 'event', collective, message_bytes, dur_ns, uneven,
            coalesce(group_size, $n_chips, card_size)
        FROM _comm_events
    ),

    -- Sums of integers, whose order does not matter; what has a factor 0 or none carries nothing.
    sums AS (
        SELECT
            trace,
            basis,
            collective,
            group_size,
            uneven,
            count(*) AS calls,
            count(*) FILTER (WHERE message_bytes > 0 AND time_ns > 0) AS sized_calls,
            sum(message_bytes) FILTER (WHERE message_bytes > 0 AND time_ns > 0) AS bytes,
            sum(time_ns) FILTER (WHERE message_bytes > 0 AND time_ns > 0) AS time_ns
        FROM measured
        WHERE collective <> 'barrier' AND group_size IS DISTINCT FROM 1 AND message_bytes IS DISTINCT FROM 0
        GROUP BY trace, basis, collective, group_size, uneven
    ),

    factors AS (
        SELECT
            s.trace, s.basis, s.collective, s.group_size, s.calls, s.sized_calls, s.bytes, s.time_ns,
            CASE
                WHEN s.uneven THEN NULL
                WHEN NOT f.in_group THEN f.factor
                WHEN s.group_size > 1 THEN f.factor * (s.group_size - 1) / s.group_size
            END AS bus_factor
        FROM sums AS s
        LEFT JOIN bus_factors AS f ON f.collective = s.collective
    ),

    types AS (
        SELECT
            trace,
            basis,
            collective,
            sum(calls) AS calls,
            sum(sized_calls) FILTER (WHERE bus_factor IS NOT NULL) AS counted_calls,
            sum(bus_factor * bytes ORDER BY group_size) AS bus_bytes,
            sum(time_ns) FILTER (WHERE bus_factor IS NOT NULL) AS time_ns
        FROM factors
        GROUP BY trace, basis, collective
    ),

    totals AS (
        SELECT
            trace,
            sum(bus_bytes ORDER BY collective) FILTER (WHERE basis = 'call')
                / sum(time_ns) FILTER (WHERE basis = 'call') AS avg_comm_bandwidth_GBps,
            map(
                array_agg(collective ORDER BY collective)
                    FILTER (WHERE basis = 'call' AND bus_bytes IS NOT NULL),
                array_agg(bus_bytes / time_ns ORDER BY collective)
                    FILTER (WHERE basis = 'call' AND bus_bytes IS NOT NULL)
            ) AS by_type,
            TRY_CAST(coalesce(sum(counted_calls) FILTER (WHERE basis = 'call'), 0) AS BIGINT)
                AS calls_with_size,
            TRY_CAST(sum(calls) FILTER (WHERE basis = 'call') AS BIGINT) AS calls,
            sum(bus_bytes ORDER BY collective) FILTER (WHERE basis = 'event')
                / sum(time_ns) FILTER (WHERE basis = 'event') AS from_events_gb_per_s
        FROM types
        GROUP BY trace
    )

SELECT
    trace, avg_comm_bandwidth_GBps, by_type, calls_with_size, calls,
    CAST(calls_with_size AS DOUBLE) / calls AS size_coverage_ratio,
    from_events_gb_per_s
FROM totals
ORDER BY trace
