-- @view     _size_reasons
-- @summary  Why the sizes and times of communication calls say nothing of a bandwidth (why) or of a
--           line (why_no_line, of one kind): of all calls, and of the kinds that are asked for
--           alone.
-- @requires ranks
-- @reads    _comm_calls _sized_calls collectives
-- @caveat   One row for each trace and each word by which a sentence calls the calls (spoken),
--           whatever the trace has; NULL where they do.
WITH
    subjects AS (
        SELECT spoken, collective
        FROM (VALUES
            ('call', NULL),
            ('all-gather', 'all_gather'),
            ('all-reduce', 'all_reduce'),
            ('all_reduce', 'all_reduce'),
            ('all-to-all', 'all_to_all'),
            ('reduce-scatter', 'reduce_scatter')
        ) AS s (spoken, collective)
    ),

    traces AS (
        SELECT DISTINCT trace
        FROM ranks
    ),

    sized AS (
        SELECT
            trace, collective, count(*) AS kinds, sum(stated_calls) AS stated, sum(filled_calls) AS filled,
            sum(even_calls) AS even, sum(even_timed_calls) AS timed
        FROM _sized_calls
        GROUP BY GROUPING SETS ((trace, collective), (trace))
    ),

    points AS (
        SELECT trace, collective, count(*) AS calls, count(DISTINCT message_bytes) AS sizes
        FROM _comm_calls
        WHERE message_bytes > 0 AND transfer_ns > 0
        GROUP BY trace, collective
    ),

    reasons AS (
        SELECT
            t.trace, s.spoken, p.calls, p.sizes,
            CASE
                WHEN s.collective IS NOT NULL AND c.collective IS NULL
                    THEN 'the trace has no ' || s.spoken
                WHEN coalesce(z.kinds, 0) = 0 AND s.collective IS NULL
                    THEN 'the trace has no call of more than one rank beside barriers'
                WHEN coalesce(z.kinds, 0) = 0 THEN 'no ' || s.spoken || ' has more than one rank'
                WHEN z.stated = 0 THEN 'the trace states no message size of any ' || s.spoken
                WHEN z.filled = 0 THEN 'every ' || s.spoken || ' of known size carries 0 bytes'
                WHEN z.even = 0 AND s.spoken = 'call'
                    THEN 'every call of known size is an all-to-all whose splits differ, so that no'
                        || ' one message size describes it'
                WHEN z.even = 0
                    THEN 'the splits of every all-to-all of known size differ, so that no one'
                        || ' message size describes a call'
                WHEN z.timed = 0
                    THEN 'no ' || s.spoken || ' of known size has a duration above 0'
            END AS why
        FROM traces AS t
        CROSS JOIN subjects AS s
        LEFT JOIN (SELECT DISTINCT trace, collective FROM collectives) AS c
            ON c.trace = t.trace AND c.collective = s.collective
        LEFT JOIN sized AS z
            ON z.trace = t.trace AND z.collective IS NOT DISTINCT FROM s.collective
        LEFT JOIN points AS p ON p.trace = t.trace AND p.collective = s.collective
    )

SELECT
    trace, spoken, why,
    CASE
        WHEN why IS NOT NULL OR spoken = 'call' THEN why
        WHEN calls < 5
            THEN 'the trace has fewer than 5 ' || spoken || ' calls of known size and a duration above 0'
        WHEN sizes < 2
            THEN 'all ' || spoken || ' calls have one message size, and a line needs two'
    END AS why_no_line
FROM reasons
