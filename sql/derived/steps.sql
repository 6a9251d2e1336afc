-- @derived  steps
-- @partition rank
-- @summary  Steps of each rank, from the markers on its host.
-- @reads    host_events step_ranges
-- @caveat   Ranges that the reader took as steps (--step-range, or a name that frameworks use)
--           stand in step_ranges; with --step-range they replace the profiler's own markers.
-- @caveat   Markers that Kineto repeats on the device are no steps: they span device work.
-- @source   formats_kineto section 6: ProfilerStep#N, an Operator before 2022 and a user_annotation
--           since
WITH
    markers AS (
        SELECT source, rank, name, ts_ns, dur_ns
        FROM host_events
        WHERE class = 'host_annotation'
            AND name LIKE 'ProfilerStep#%'
            AND dur_ns IS NOT NULL
            AND source = 'kineto'
            AND NOT EXISTS (
                SELECT 1 FROM step_ranges AS r
                WHERE r.source = host_events.source AND r.rank = host_events.rank
            )
    ),

    marked AS (
        SELECT
            source,
            rank,
            TRY_CAST(substr(name, 14) AS BIGINT) AS step,
            ts_ns,
            dur_ns,
            'ProfilerStep' AS marker
        FROM markers
        UNION ALL
        SELECT source, rank, step, ts_ns, dur_ns, marker
        FROM step_ranges
    )

SELECT source, rank, step, ts_ns, dur_ns, marker
FROM marked
WHERE step IS NOT NULL
ORDER BY rank, ts_ns, step
