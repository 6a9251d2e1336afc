-- @view     _memory_reasons
-- @summary  Why what recorded the memory does not say what is asked: anything of a device (device),
--           levels over time (levels), the moves of the allocator (moves), the events of a snapshot
--           (events).
-- @requires ranks
-- @reads    _memory_sources
-- @caveat   One row for each trace and each thing that is asked (what), whatever the trace has;
--           NULL where it says it.
WITH
    traces AS (
        SELECT DISTINCT trace
        FROM ranks
    ),

    -- Columns of what there is none of are 0: a trace without any has a row of its own.
    counts AS (
        SELECT
            t.trace, count(s.what) AS sources,
            count(*) FILTER (WHERE s.what <> 'host samples') AS of_device,
            count(*) FILTER (WHERE s.what IN ('events', 'timeline', 'totals')) AS of_levels,
            count(*) FILTER (WHERE s.what <> 'snapshot') AS beside_snapshots,
            count(*) FILTER (WHERE s.what IN ('events', 'snapshot')) AS of_snapshots,
            count(*) FILTER (WHERE s.what = 'events') AS of_events
        FROM traces AS t
        LEFT JOIN _memory_sources AS s ON s.trace = t.trace
        GROUP BY t.trace
    )

SELECT
    n.trace, q.what,
    CASE
        WHEN q.what = 'events' AND n.of_snapshots = 0
            THEN 'it needs a memory snapshot, and this trace has none'
        WHEN q.what <> 'events' AND n.sources > 0 AND n.of_device = 0
            THEN 'only the memory of the host was sampled, which says nothing of a device'
        WHEN q.what <> 'events' AND n.sources = 0
            THEN 'nothing recorded the memory: no memory snapshot, no memory timeline, no memory samples'
        WHEN q.what = 'levels' AND n.of_levels = 0
            THEN 'the memory snapshots hold no events and the memory samples no totals, so that no'
                || ' level before the end is known'
        WHEN (q.what = 'events' AND n.of_events = 0)
            OR (q.what = 'moves' AND n.beside_snapshots = 0)
            THEN 'the memory snapshots hold no events: they were not recorded'
                || ' (torch.cuda.memory._record_memory_history starts it)'
    END AS why
FROM counts AS n
CROSS JOIN (VALUES ('device'), ('levels'), ('moves'), ('events')) AS q (what)
