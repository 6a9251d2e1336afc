-- @metric   scale_up_bw_utility_model_pct
-- @version  1
-- @area     bandwidth
-- @summary  How much shorter a step would be with twice the bandwidth inside the nodes, by a model:
--           half of the exposed transfer time of the collectives inside a node is saved.
-- @grain    trace
-- @requires collectives steps
-- @reads    _event_links _comm_fits _comm_launches _step_times busy_intervals
-- @value    scale_up_bw_utility_model_pct
-- @alias    scale_up_bw_utility scale_up_bw_utility_pct
-- @coverage link_coverage_ratio | links of calls, by the time that they take, are
-- @check    (SELECT sum(launched_calls) FROM _comm_launches) > 0
--           | of no communication event is the launch known, and with it the step
-- @check    (SELECT count(*) FROM collectives WHERE step IS NOT NULL AND device IS NOT NULL) > 0
--           | no step launched communication on a device
-- @check    (SELECT count(*) FROM collectives WHERE step IS NOT NULL AND device IS NOT NULL AND
--           dur_ns > 0) > 0
--           | no communication that a step launched has a duration above 0
-- @null     of no call is the link known (hosts of the ranks, or devices of a node in the card), or
--           no step that counts has a duration
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   scale_up_bw_utility_model_pct DOUBLE value pct | 100 x (T - T2) / T of a rank, T the
--           time of its steps; mean over ranks.
-- @column   step_time_ms DOUBLE value ms | T: mean time of a step (first and last left out of more
--           than two), mean over ranks.
-- @column   model_step_time_ms DOUBLE value ms | T2: the same with what the model saves taken away.
-- @column   exposed_comm_ms DOUBLE value ms | Communication of a step with no computation beside
--           it, call by call, mean over steps and ranks.
-- @column   exposed_intra_ms DOUBLE value ms | That of calls inside a node.
-- @column   exposed_bandwidth_ms DOUBLE value ms | Of that what more bandwidth shortens: T2 is T
--           less half of it.
-- @column   fitted_ratio DOUBLE value ratio | Share of the exposed time inside the nodes whose
--           latency is from a fit; of the rest all of the transfer counts as bandwidth.
-- @column   link_coverage_ratio DOUBLE value ratio | Share of the communication time whose link is
--           known.
-- @column   per_rank LIST value - | Of each rank: rank, steps, step_time_ms, model_step_time_ms,
--           utility_pct.
-- @caveat   A model, no simulation: a call of duration D waits for late ranks (D - the shortest
--           duration over its ranks), has the latency of the Hockney fit of its kind, group size
--           and link (from 5 calls and two sizes on, else 0), and transfers in the rest. Of the
--           transfer the share that no computation hides is halved. What waits for a shorter call
--           is not moved, and a step never loses more than half of the time in which it only
--           communicates.
-- @source   metrics 2.J scale_up_bw_utility_pct (analytic variant), 4.1 (Hockney)
WITH
    -- Disjoint spans of computation of each device, and how long it computed before each of them.
    computing AS (
        SELECT
            trace, rank, coalesce(device, -1) AS device_key, start_ns, end_ns,
            sum(end_ns - start_ns) OVER (
                PARTITION BY trace, rank, device ORDER BY start_ns
            ) - (end_ns - start_ns) AS before_ns
        FROM busy_intervals
        WHERE class = 'compute'
    ),

    events AS (
        SELECT
            e.trace, e.rank, coalesce(e.device, -1) AS device_key, e.step, e.event_id, e.ts_ns,
            e.ts_ns + e.dur_ns AS end_ns, e.dur_ns, least(e.transfer_ns, e.dur_ns) AS transfer_ns, e.link,
            CASE WHEN f.fit.samples >= 5 AND f.fit.sizes >= 2 THEN f.fit.alpha_s * 1e9 END AS alpha_ns
        FROM _event_links AS e
        LEFT JOIN _comm_fits AS f
            ON f.trace = e.trace
            AND f.collective = e.collective
            AND f.group_size = e.group_size
            AND f.link IS NOT DISTINCT FROM e.seen_link
        WHERE e.rank IS NOT NULL AND e.device IS NOT NULL AND e.step IS NOT NULL AND e.dur_ns > 0
    ),

    -- Computation up to the start and up to the end of each event; their difference hides it.
    hidden AS (
        SELECT
            e.trace, e.rank, e.device_key, e.step, e.ts_ns, e.end_ns, e.dur_ns, e.transfer_ns, e.link, e.alpha_ns,
            coalesce(b.before_ns + least(e.end_ns, b.end_ns) - b.start_ns, 0)
                - coalesce(a.before_ns + least(e.ts_ns, a.end_ns) - a.start_ns, 0) AS hidden_ns
        FROM events AS e
        ASOF LEFT JOIN computing AS a
            ON a.trace = e.trace AND a.rank = e.rank AND a.device_key = e.device_key AND a.start_ns <= e.ts_ns
        ASOF LEFT JOIN computing AS b
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
        ASOF LEFT JOIN computing AS a
            ON a.trace = u.trace AND a.rank = u.rank AND a.device_key = u.device_key AND a.start_ns <= u.start_ns
        ASOF LEFT JOIN computing AS b
            ON b.trace = u.trace AND b.rank = u.rank AND b.device_key = u.device_key AND b.start_ns <= u.end_ns
        GROUP BY u.trace, u.rank, u.step, u.device_key
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
    ),

    links AS (
        SELECT
            trace,
            CAST(sum(dur_ns) FILTER (WHERE link IS NOT NULL) AS DOUBLE) / sum(dur_ns) AS link_coverage_ratio,
            count(*) FILTER (WHERE link IS NOT NULL) > 0 AS link_known
        FROM events
        GROUP BY trace
    ),

    rank_steps AS (
        SELECT
            t.trace, t.rank, count(*) AS steps,
            avg(t.time_ns) AS step_ns,
            avg(coalesce(s.exposed_ns, 0) ORDER BY t.step) AS exposed_ns,
            avg(coalesce(s.intra_ns, 0) ORDER BY t.step) AS intra_ns,
            avg(coalesce(s.fitted_ns, 0) ORDER BY t.step) AS fitted_ns,
            avg(least(coalesce(s.bandwidth_ns, 0), t.time_ns) ORDER BY t.step) AS bandwidth_ns
        FROM _step_times AS t
        LEFT JOIN steps_saved AS s ON s.trace = t.trace AND s.rank = t.rank AND s.step = t.step
        WHERE t.time_ns > 0
        GROUP BY t.trace, t.rank
    ),

    totals AS (
        SELECT
            r.trace, l.link_coverage_ratio,
            avg(50 * r.bandwidth_ns / r.step_ns ORDER BY r.rank) AS utility_pct,
            avg(r.step_ns ORDER BY r.rank) / 1e6 AS step_time_ms,
            avg(r.step_ns - r.bandwidth_ns / 2 ORDER BY r.rank) / 1e6 AS model_step_time_ms,
            avg(r.exposed_ns ORDER BY r.rank) / 1e6 AS exposed_comm_ms,
            avg(r.intra_ns ORDER BY r.rank) / 1e6 AS exposed_intra_ms,
            avg(r.bandwidth_ns ORDER BY r.rank) / 1e6 AS exposed_bandwidth_ms,
            sum(r.fitted_ns ORDER BY r.rank) / nullif(sum(r.intra_ns ORDER BY r.rank), 0) AS fitted_ratio,
            array_agg({
                rank: r.rank, steps: r.steps, step_time_ms: r.step_ns / 1e6,
                model_step_time_ms: (r.step_ns - r.bandwidth_ns / 2) / 1e6,
                utility_pct: 50 * r.bandwidth_ns / r.step_ns
            } ORDER BY r.rank) AS per_rank
        FROM rank_steps AS r
        INNER JOIN links AS l ON l.trace = r.trace
        WHERE l.link_known
        GROUP BY r.trace, l.link_coverage_ratio
    )

SELECT
    trace, utility_pct AS scale_up_bw_utility_model_pct, step_time_ms, model_step_time_ms,
    exposed_comm_ms, exposed_intra_ms, exposed_bandwidth_ms, fitted_ratio, link_coverage_ratio, per_rank
FROM totals
ORDER BY trace
