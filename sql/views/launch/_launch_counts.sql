-- @view     _launch_counts
-- @summary  Device events of each rank whose launch, and so whose step, is known.
-- @materialize session
-- @partition rank
-- @requires device_events
-- @reads    launches _launch_calls
-- @caveat   events and known_events are of kernels, copies, sets and graphs, compute_events and
--           known_compute_events of class compute alone; events of XLA count as known: the step is
--           told by the time of the event itself where the launch is not. launchable_events, of
--           other profilers and with a duration, could be launched by calls; launched_events are
--           those of _launch_calls. timed_kernels are kernels among these whose call has a
--           duration, short_kernels those that take less time than the call.
WITH
    events AS (
        SELECT
            d.trace, d.rank, d.class, d.source = 'xla' OR l.event_id IS NOT NULL AS known,
            d.source <> 'xla' AND d.dur_ns IS NOT NULL AS launchable
        FROM device_events AS d
        LEFT JOIN launches AS l ON l.trace = d.trace AND l.event_id = d.event_id
        WHERE d.class IN ('comm', 'compute', 'copy', 'set', 'graph') AND d.rank IS NOT NULL
    ),

    counts AS (
        SELECT
            trace, rank,
            count(*) AS events,
            count(*) FILTER (WHERE known) AS known_events,
            count(*) FILTER (WHERE class = 'compute') AS compute_events,
            count(*) FILTER (WHERE known AND class = 'compute') AS known_compute_events,
            count(*) FILTER (WHERE launchable) AS launchable_events
        FROM events
        GROUP BY trace, rank
    ),

    calls AS (
        SELECT
            trace, rank, count(*) AS launched_events,
            count(*) FILTER (WHERE class IN ('comm', 'compute') AND call_ns IS NOT NULL)
                AS timed_kernels,
            count(*) FILTER (WHERE class IN ('comm', 'compute') AND dur_ns < call_ns)
                AS short_kernels
        FROM _launch_calls
        GROUP BY trace, rank
    )

SELECT
    n.trace, n.rank, n.events, n.known_events, n.compute_events, n.known_compute_events,
    n.launchable_events, coalesce(c.launched_events, 0) AS launched_events,
    coalesce(c.timed_kernels, 0) AS timed_kernels, coalesce(c.short_kernels, 0) AS short_kernels
FROM counts AS n
LEFT JOIN calls AS c ON c.trace = n.trace AND c.rank = n.rank
