-- @view     _clock_offsets
-- @summary  How far the clock of each rank is ahead of that of the lowest ranks that it
--           communicates with, by the ends of calls that all ranks leave together.
-- @materialize session
-- @requires collectives
-- @source   uncertainty: standard error of a median, 1.2533 sigma / sqrt(n) of a large normal
--           sample (sqrt(pi / 2) = 1.2533), sigma = 1.4826 MAD (Rousseeuw and Croux 1993)
WITH RECURSIVE
    shares AS (
        SELECT trace, collective_id, collective, rank, ts_ns + dur_ns AS end_ns
        FROM collectives
        WHERE collective_id IS NOT NULL
    ),

    -- Ends are compared with those of the lowest rank of the call; only what all ranks leave
    -- together says something of their clocks.
    reference_ranks AS (
        SELECT trace, collective_id, min(rank) AS rank
        FROM shares
        WHERE collective IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')
        GROUP BY trace, collective_id
    ),

    end_differences AS (
        SELECT s.trace, s.rank, r.rank AS reference_rank, s.end_ns - e.end_ns AS difference_ns
        FROM shares AS s
        INNER JOIN reference_ranks AS r
            ON r.trace = s.trace AND r.collective_id = s.collective_id
        INNER JOIN shares AS e
            ON e.trace = r.trace AND e.collective_id = r.collective_id AND e.rank = r.rank
        WHERE s.rank <> r.rank
    ),

    direct AS (
        SELECT trace, rank, reference_rank, median(difference_ns) AS offset_ns, count(*) AS call_count
        FROM end_differences
        GROUP BY trace, rank, reference_rank
    ),

    -- Each rank against the lowest rank that it shares calls with.
    nearest AS (
        SELECT trace, rank, reference_rank, offset_ns, call_count
        FROM direct
        QUALIFY row_number() OVER (
            PARTITION BY trace, rank ORDER BY reference_rank
        ) = 1
    ),

    spreads AS (
        SELECT d.trace, d.rank, median(abs(d.difference_ns - n.offset_ns)) AS spread_ns
        FROM end_differences AS d
        INNER JOIN nearest AS n
            ON n.trace = d.trace AND n.rank = d.rank AND n.reference_rank = d.reference_rank
        GROUP BY d.trace, d.rank
    ),

    -- One call says nothing of how much its neighbours would differ.
    errors AS (
        SELECT
            n.trace, n.rank, n.reference_rank, n.offset_ns, n.call_count, s.spread_ns,
            CASE WHEN n.call_count > 1
                THEN 1.2533 * 1.4826 * s.spread_ns / sqrt(CAST(n.call_count AS DOUBLE))
            END AS error_ns
        FROM nearest AS n
        INNER JOIN spreads AS s ON s.trace = n.trace AND s.rank = n.rank
    ),

    -- From reference to reference, each a lower rank, down to one that has none.
    chains AS (
        SELECT
            trace, rank, reference_rank AS at_rank, offset_ns, error_ns * error_ns AS squared_error
        FROM errors
        UNION ALL
        SELECT
            c.trace, c.rank, e.reference_rank, c.offset_ns + e.offset_ns,
            c.squared_error + e.error_ns * e.error_ns
        FROM chains AS c
        INNER JOIN errors AS e ON e.trace = c.trace AND e.rank = c.at_rank
    ),

    ends AS (
        SELECT trace, rank, min(at_rank) AS at_rank
        FROM chains
        GROUP BY trace, rank
    )

SELECT
    n.trace,
    n.rank,
    CAST(c.offset_ns AS BIGINT) AS offset_ns,
    n.spread_ns,
    n.reference_rank,
    n.call_count,
    -- Along a chain the errors of all add up.
    sqrt(c.squared_error) AS uncertainty_ns
FROM errors AS n
INNER JOIN ends AS d ON d.trace = n.trace AND d.rank = n.rank
INNER JOIN chains AS c ON c.trace = d.trace AND c.rank = d.rank AND c.at_rank = d.at_rank
