-- @metric   num_comm_kernels_w_size_and_time
-- @version  1
-- @area     traffic
-- @summary  Communication events whose message size and duration are known, all ranks.
-- @grain    trace
-- @requires ranks
-- @reads    _rank_list collectives device_events _kernel_coverage
-- @value    num_comm_kernels_w_size_and_time
-- @check    (SELECT count(*) FROM device_events) > 0 OR (SELECT count(*) FROM collectives) > 0
--           | the trace has neither device events nor gloo calls
-- @check    (SELECT count(*) FROM device_events WHERE class = 'other' AND name IS NULL) = 0
--           | the names of some kernels are lost, and with them whether they communicate
-- @check    (SELECT count(*) FROM device_events WHERE class = 'graph') = 0 OR (SELECT count(*) FROM
--           device_events WHERE class = 'comm') > 0
--           | whole CUDA graphs were traced, so that communication inside them is not in the trace
-- @param    n_chips BIGINT NULL | Chips that events_per_chip divides by; the ingested ranks where
--           it is not given.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   num_comm_kernels_w_size_and_time BIGINT value calls | Events with message_bytes > 0 and
--           dur_ns > 0.
-- @column   per_rank MAP value calls | Of each rank.
-- @column   by_type MAP value calls | Of each kind, all ranks.
-- @column   events_per_chip DOUBLE value calls | All of them / chips.
-- @warn     (SELECT max(unclassified_ratio) FROM _kernel_coverage) > 0.05
--           | what more than 5 % of the kernel time does is told by no name: kernels that
--           communicate may be among it (see the metric kernel)
-- @caveat   The tool that set the name takes memory traffic for the size where a shape is a tuple,
--           and counts both halves of an asynchronous pair.
-- @source   metrics 2.C num_comm_kernels_w_size_and_time (defects D10, D21)
WITH
    events AS (
        SELECT trace, rank, collective
        FROM collectives
        WHERE message_bytes > 0 AND dur_ns > 0
    ),

    per_rank AS (
        SELECT r.trace, r.rank, count(e.collective) AS event_count
        FROM _rank_list AS r
        LEFT JOIN events AS e ON e.trace = r.trace AND e.rank = r.rank
        GROUP BY r.trace, r.rank
    ),

    rank_totals AS (
        SELECT
            trace,
            TRY_CAST(sum(event_count) AS BIGINT) AS event_count,
            count(*) AS rank_count,
            map(array_agg(CAST(rank AS VARCHAR) ORDER BY rank), array_agg(event_count ORDER BY rank))
                AS per_rank
        FROM per_rank
        GROUP BY trace
    ),

    types AS (
        SELECT trace, collective, count(*) AS event_count
        FROM events
        GROUP BY trace, collective
    ),

    type_totals AS (
        SELECT
            trace,
            map(array_agg(collective ORDER BY collective), array_agg(event_count ORDER BY collective))
                AS by_type
        FROM types
        GROUP BY trace
    )

SELECT
    r.trace,
    r.event_count AS num_comm_kernels_w_size_and_time,
    r.per_rank,
    coalesce(t.by_type, map([]::VARCHAR[], []::BIGINT[])) AS by_type,
    CAST(r.event_count AS DOUBLE) / nullif(coalesce($n_chips, r.rank_count), 0)
        AS events_per_chip
FROM rank_totals AS r
LEFT JOIN type_totals AS t ON t.trace = r.trace
ORDER BY r.trace
