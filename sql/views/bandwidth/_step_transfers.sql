-- @view     _step_transfers
-- @summary  Communication of each step of a rank that no computation hides, and how much of it is
--           transfer inside a node that bandwidth bounds: means over the devices of the rank.
-- @materialize session
-- @partition rank
-- @requires _event_links
-- @reads    _comm_fits _compute_spans
-- @caveat   event_ns and linked_ns are durations of events added up: of all, and of those whose
--           link is known. Nanoseconds.
WITH
    events AS (
        SELECT
            e.trace, e.rank, e.device AS device_key, e.step, e.event_id, e.ts_ns,
            e.ts_ns + e.dur_ns AS end_ns, e.dur_ns, least(e.transfer_ns, e.dur_ns) AS transfer_ns, e.link,
            CASE WHEN f.fit.samples >= 5 THEN f.fit.alpha_s * 1e9 END AS alpha_ns
        FROM _event_links AS e
        LEFT JOIN _comm_fits AS f
            ON f.trace = e.trace
            AND f.collective = e.collective
            AND f.group_size = e.group_size
            AND f.link IS NOT DISTINCT FROM e.seen_link
        WHERE e.device IS NOT NULL AND e.step IS NOT NULL AND e.dur_ns > 0
    ),

    -- Computation up to the start and up to the end of each event; their difference hides it.
    hidden AS (
        SELECT
            e.trace, e.rank, e.device_key, e.step, e.ts_ns, e.end_ns, e.dur_ns, e.transfer_ns, e.link, e.alpha_ns,
            coalesce(b.before_ns + least(e.end_ns, b.end_ns) - b.start_ns, 0)
                - coalesce(a.before_ns + least(e.ts_ns, a.end_ns) - a.start_ns, 0) AS hidden_ns
        FROM events AS e
        ASOF LEFT JOIN _compute_spans AS a
            ON a.trace = e.trace AND a.rank = e.rank AND a.device_key = e.device_key AND a.start_ns <= e.ts_ns
        ASOF LEFT JOIN _compute_spans AS b
            ON b.trace = e.trace AND b.rank = e.rank AND b.device_key = e.device_key AND b.start_ns <= e.end_ns
    ),

    exposed AS (
        SELECT
            trace, rank, device_key, step, ts_ns, dur_ns, link, alpha_ns,
            CAST(dur_ns - hidden_ns AS DOUBLE) AS exposed_ns,
            CASE WHEN link = 'intra'
                THEN greatest(transfer_ns - coalesce(alpha_ns, 0), 0) * (dur_ns - hidden_ns) / dur_ns
            END AS bandwidth_ns
        FROM hidden
    ),

    device_steps AS (
        SELECT
            trace, rank, step, device_key,
            sum(exposed_ns) AS exposed_ns,
            sum(exposed_ns) FILTER (WHERE link = 'intra') AS intra_ns,
            sum(exposed_ns) FILTER (WHERE link = 'intra' AND alpha_ns IS NOT NULL) AS fitted_ns,
            sum(bandwidth_ns ORDER BY ts_ns, dur_ns) AS bandwidth_ns
        FROM exposed
        GROUP BY trace, rank, step, device_key
    ),

    -- Calls at the same time are exposed together once.
    unions AS (
        SELECT
            trace, rank, step, device_key,
            interval_union(array_agg({start_ns: ts_ns, end_ns: end_ns})) AS spans
        FROM events
        GROUP BY trace, rank, step, device_key
    ),

    union_spans AS (
        SELECT trace, rank, step, device_key, unnest(spans) AS span
        FROM unions
    ),

    union_edges AS (
        SELECT
            trace, rank, step, device_key, span.start_ns AS start_ns, span.end_ns AS end_ns
        FROM union_spans
    ),

    union_exposed AS (
        SELECT
            u.trace, u.rank, u.step, u.device_key,
            sum(
                u.end_ns - u.start_ns
                - coalesce(b.before_ns + least(u.end_ns, b.end_ns) - b.start_ns, 0)
                + coalesce(a.before_ns + least(u.start_ns, a.end_ns) - a.start_ns, 0)
            ) AS exposed_ns
        FROM union_edges AS u
        ASOF LEFT JOIN _compute_spans AS a
            ON a.trace = u.trace AND a.rank = u.rank AND a.device_key = u.device_key AND a.start_ns <= u.start_ns
        ASOF LEFT JOIN _compute_spans AS b
            ON b.trace = u.trace AND b.rank = u.rank AND b.device_key = u.device_key AND b.start_ns <= u.end_ns
        GROUP BY u.trace, u.rank, u.step, u.device_key
    ),

    links AS (
        SELECT
            trace, rank, step,
            sum(dur_ns) AS event_ns,
            sum(dur_ns) FILTER (WHERE link IS NOT NULL) AS linked_ns,
            count(*) FILTER (WHERE link IS NOT NULL) AS linked_events
        FROM events
        GROUP BY trace, rank, step
    ),

    -- Devices of a rank work at the same time: a step gains what they gain in the mean.
    steps_saved AS (
        SELECT
            d.trace, d.rank, d.step,
            avg(d.exposed_ns ORDER BY d.device_key) AS exposed_ns,
            avg(coalesce(d.intra_ns, 0) ORDER BY d.device_key) AS intra_ns,
            avg(coalesce(d.fitted_ns, 0) ORDER BY d.device_key) AS fitted_ns,
            avg(least(coalesce(d.bandwidth_ns, 0), CAST(u.exposed_ns AS DOUBLE)) ORDER BY d.device_key)
                AS bandwidth_ns
        FROM device_steps AS d
        INNER JOIN union_exposed AS u
            ON u.trace = d.trace AND u.rank = d.rank AND u.step = d.step AND u.device_key = d.device_key
        GROUP BY d.trace, d.rank, d.step
    )

SELECT
    s.trace, s.rank, s.step, s.exposed_ns, s.intra_ns, s.fitted_ns, s.bandwidth_ns,
    l.event_ns, l.linked_ns, l.linked_events
FROM steps_saved AS s
INNER JOIN links AS l ON l.trace = s.trace AND l.rank = s.rank AND l.step = s.step
