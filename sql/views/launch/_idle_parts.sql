-- @view     _idle_parts
-- @summary  Idle gaps of the devices cut into spans, each with what the device waited for.
-- @partition rank
-- @requires _gap_causes
-- @reads    _blocking_calls phases
-- @caveat   The part before the launch call of what ends the gap returned is host_wait of
--           idle_causes: sync, while the last call of that thread that waits for the device ran in
--           it; data_loading, in such a phase of the rank; of the rest before the launch call host,
--           or where there is no more than 100 us of it in the gap, sync beside such a call, else
--           launch. The launch call is launch too, but sync where the rest before it is, and what
--           comes after it is launch. A gap before an event
--           that had been launched is kernel_gap up to 10 us, else other. unknown: the launch is
--           not in the trace. What a rank without a device does between its calls is host. thread:
--           process and thread of the launch call, -1 where not known. wait_event_id: the call that
--           waits in the gap, also of spans of other parts.
WITH
    known AS (
        SELECT
            g.trace, g.rank, g.device, g.start_ns, g.end_ns, g.gap_ns, g.host_wait_ns,
            g.start_ns + g.host_wait_ns AS launched_ns,
            g.start_ns + g.host_wait_ns - g.call_ns AS call_ns,
            concat_ws(':', coalesce(g.pid, -1), coalesce(g.tid, -1)) AS thread
        FROM _gap_causes AS g
    ),

    waiting AS (
        SELECT
            trace, rank, concat_ws(':', coalesce(pid, -1), coalesce(tid, -1)) AS thread, event_id,
            ts_ns, end_ns
        FROM _blocking_calls
        WHERE waits OR copy_end_ns IS NOT NULL
    ),

    loading AS (
        SELECT trace, rank, ts_ns, ts_ns + dur_ns AS end_ns
        FROM phases
        WHERE phase = 'data_loading'
    ),

    -- The last call that waits, and the last phase of data loading, that began before the launch;
    -- NULL where there is none, as least and greatest pass over NULL.
    placed AS (
        SELECT
            k.trace, k.rank, k.device, k.thread, k.start_ns, k.end_ns, k.launched_ns, k.call_ns,
            w.event_id AS wait_event_id,
            CASE WHEN w.ts_ns IS NOT NULL THEN greatest(w.ts_ns, k.start_ns) END AS sync_start_ns,
            CASE WHEN w.end_ns IS NOT NULL THEN least(w.end_ns, k.launched_ns) END AS sync_end_ns,
            CASE WHEN l.ts_ns IS NOT NULL THEN greatest(l.ts_ns, k.start_ns) END AS load_start_ns,
            CASE WHEN l.end_ns IS NOT NULL THEN least(l.end_ns, k.launched_ns) END AS load_end_ns
        FROM known AS k
        ASOF LEFT JOIN waiting AS w
            ON w.trace = k.trace AND w.rank = k.rank AND w.thread = k.thread
            AND w.ts_ns < k.launched_ns
        ASOF LEFT JOIN loading AS l
            ON l.trace = k.trace AND l.rank = k.rank AND l.ts_ns < k.launched_ns
        WHERE k.host_wait_ns > 0
    ),

    -- A call that had returned before the gap is none of it: it gets no span, and stands at its
    -- start.
    bounded AS (
        SELECT
            trace, rank, device, thread, start_ns, end_ns, launched_ns, call_ns,
            CASE WHEN sync_end_ns > sync_start_ns THEN wait_event_id END AS wait_event_id,
            CASE WHEN sync_end_ns > sync_start_ns THEN sync_start_ns ELSE start_ns END
                AS sync_start_ns,
            CASE WHEN sync_end_ns > sync_start_ns THEN sync_end_ns ELSE start_ns END AS sync_end_ns,
            CASE WHEN load_end_ns > load_start_ns THEN load_start_ns ELSE start_ns END
                AS load_start_ns,
            CASE WHEN load_end_ns > load_start_ns THEN load_end_ns ELSE start_ns END AS load_end_ns
        FROM placed
    ),

    -- Where both are in a gap, the call counts for what lies in both.
    cuts AS (
        SELECT
            trace, rank, device, thread, start_ns, end_ns, launched_ns, call_ns, wait_event_id,
            list_sort(list_distinct([
                start_ns, sync_start_ns, sync_end_ns, load_start_ns, load_end_ns, call_ns,
                launched_ns
            ])) AS bounds,
            sync_start_ns, sync_end_ns, load_start_ns, load_end_ns
        FROM bounded
    ),

    pieces AS (
        SELECT
            trace, rank, device, thread, start_ns AS gap_start_ns, call_ns, wait_event_id,
            sync_start_ns, sync_end_ns, load_start_ns, load_end_ns,
            unnest(bounds[:-2]) AS start_ns, unnest(bounds[2:]) AS end_ns
        FROM cuts
    ),

    labelled AS (
        SELECT
            trace, rank, device, thread, gap_start_ns, wait_event_id, start_ns, end_ns,
            CASE
                WHEN start_ns >= sync_start_ns AND end_ns <= sync_end_ns THEN 'sync'
                WHEN start_ns >= load_start_ns AND end_ns <= load_end_ns THEN 'data_loading'
                WHEN start_ns >= call_ns THEN 'launch'
                ELSE 'rest'
            END AS part
        FROM pieces
    ),

    rests AS (
        SELECT
            trace, rank, device, thread, wait_event_id, start_ns, end_ns, part,
            sum(CASE WHEN part = 'rest' THEN end_ns - start_ns ELSE 0 END) OVER (
                PARTITION BY trace, rank, device, gap_start_ns
            ) AS rest_ns
        FROM labelled
    )

SELECT
    trace, rank, device, start_ns, end_ns,
    CASE
        WHEN part IN ('sync', 'data_loading') THEN part
        WHEN part = 'rest' AND rest_ns > 100000 THEN 'host'
        WHEN wait_event_id IS NOT NULL AND rest_ns <= 100000 THEN 'sync'
        ELSE 'launch'
    END AS part,
    thread, wait_event_id
FROM rests
UNION ALL
SELECT trace, rank, device, launched_ns, end_ns, 'launch', thread, NULL
FROM known
WHERE host_wait_ns > 0 AND end_ns > launched_ns
UNION ALL
SELECT
    trace, rank, device, start_ns, end_ns,
    CASE
        WHEN device IS NULL THEN 'host'
        WHEN host_wait_ns IS NULL THEN 'unknown'
        WHEN gap_ns <= 10000 THEN 'kernel_gap'
        ELSE 'other'
    END,
    thread, NULL
FROM known
WHERE host_wait_ns IS NULL OR host_wait_ns = 0
