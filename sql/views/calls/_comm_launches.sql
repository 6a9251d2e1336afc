-- @view     _comm_launches
-- @summary  Communication events of each rank whose launch, and so whose step, is known; XLA and
--           gloo say the step by the time of the event itself.
-- @materialize session
-- @partition rank
-- @requires collectives launches
WITH
    events AS (
        SELECT
            c.trace, c.rank, c.dur_ns,
            c.step IS NOT NULL OR l.launch_ts_ns IS NOT NULL OR c.source = 'xla'
                OR (c.device IS NULL AND c.stream IS NULL) AS known
        FROM collectives AS c
        LEFT JOIN launches AS l ON l.trace = c.trace AND l.event_id = c.event_id
    )

SELECT
    trace, rank,
    count(*) FILTER (WHERE known) AS launched_calls,
    coalesce(sum(dur_ns) FILTER (WHERE known), 0) AS launched_ns,
    sum(dur_ns) AS comm_ns
FROM events
GROUP BY trace, rank
