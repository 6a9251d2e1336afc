-- @metric   scale_up_bw_utility_model_pct
-- @version  1
-- @area     bandwidth
-- @summary  How much shorter a step would be with twice the bandwidth inside the nodes, by a model:
--           half of the exposed transfer time of the collectives inside a node is saved.
-- @grain    trace
-- @requires collectives steps
-- @reads    _step_transfers _comm_launches _step_times
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
    links AS (
        SELECT
            trace,
            CAST(sum(linked_ns) AS DOUBLE) / sum(event_ns) AS link_coverage_ratio,
            sum(linked_events) > 0 AS link_known
        FROM _step_transfers
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
        LEFT JOIN _step_transfers AS s ON s.trace = t.trace AND s.rank = t.rank AND s.step = t.step
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
