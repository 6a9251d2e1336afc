-- @metric   hockney_inverse_beta_Bps
-- @version  1
-- @area     bandwidth
-- @summary  Bandwidth that a ring all-reduce comes near with large messages: 1 / beta of the
--           Hockney model.
-- @grain    trace
-- @requires collectives
-- @reads    _comm_calls _sized_calls
-- @value    hockney_inverse_beta_Bps
-- @coverage size_coverage_ratio | size and time of the calls are
-- @check    (SELECT count(*) FROM collectives WHERE collective = 'all_reduce') > 0
--           | the trace has no all_reduce
-- @check    (SELECT count(*) FROM _sized_calls WHERE collective = 'all_reduce') > 0
--           | no all_reduce has more than one rank
-- @check    (SELECT sum(stated_calls) FROM _sized_calls WHERE collective = 'all_reduce') > 0
--           | the trace states no message size of any all_reduce
-- @check    (SELECT sum(filled_calls) FROM _sized_calls WHERE collective = 'all_reduce') > 0
--           | every all_reduce of known size carries 0 bytes
-- @check    (SELECT sum(even_timed_calls) FROM _sized_calls WHERE collective = 'all_reduce') > 0
--           | no all_reduce of known size has a duration above 0
-- @check    (SELECT count(*) FROM _comm_calls WHERE collective = 'all_reduce' AND message_bytes > 0
--           AND transfer_ns > 0) >= 5
--           | the trace has fewer than 5 all_reduce calls of known size and a duration above 0
-- @check    (SELECT count(DISTINCT message_bytes) FROM _comm_calls WHERE collective = 'all_reduce'
--           AND message_bytes > 0 AND transfer_ns > 0) > 1
--           | all all_reduce calls have one message size, and a line needs two
-- @null     the group size with most all_reduce calls has fewer than 5 of them or one message size,
--           or no group size above 1 is known (-p n_chips=N gives it); or times do not grow with
--           the message size
-- @param    n_chips BIGINT NULL | Ranks of a group where the trace does not state them; then the
--           card counts.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   hockney_inverse_beta_Bps DOUBLE value bytes_per_s higher | 1 / beta: the bus bandwidth
--           without latency.
-- @column   r2 DOUBLE value ratio | Share of the deviations from the mean that the line explains;
--           below 0 where a clamped line is worse than the mean.
-- @column   samples BIGINT value calls | Calls of the group size: a matched call once, with the
--           least duration over its ranks.
-- @column   sizes BIGINT value count | Distinct message sizes among them; each counts once, with
--           its median time.
-- @column   group_size BIGINT value - | The group size with most calls (of equals the largest),
--           which the value is of.
-- @column   n_half_bytes DOUBLE value bytes | Message size that reaches half the bandwidth.
-- @column   by_group_size LIST value - | Of each group size what hockney_fit_ring says.
-- @column   flag VARCHAR value - | Why the fit is to be doubted, or why there is none; NULL where
--           it is sound. All that hold: few_calls (below 5), two_sizes (a line goes through any
--           two), low_r2 (below 0.8), beta_clamped, alpha_clamped, theil_sen_differs; one_size,
--           group_too_small.
-- @column   size_coverage_ratio DOUBLE value ratio | Share of the all_reduce calls whose size and
--           time are known.
-- @warn     flag IS NOT NULL | the fit is to be doubted: {flag}
-- @warn     $n_chips IS NOT NULL AND (SELECT count(*) FROM _comm_calls WHERE collective =
--           'all_reduce' AND group_size IS NULL) = 0
--           | n_chips changes nothing: the trace states the group of each all-reduce, and that
--           counts
-- @caveat   Any algorithm is described as a ring: T = 2(n - 1) x (alpha + beta x S / n). The tool
--           that set the name fits every event with the waiting in it, takes all chips for n, and
--           lets alpha fall below 0.
-- @source   Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005 (ring all-reduce); metrics 4.3 (defect
--           D33)
WITH
    calls AS (
        SELECT
            trace, message_bytes, transfer_ns, coalesce(group_size, $n_chips, card_size) AS group_size
        FROM _comm_calls
        WHERE collective = 'all_reduce' AND message_bytes > 0 AND transfer_ns > 0
    ),

    fits AS (
        SELECT
            trace,
            group_size,
            hockney_fit_ring(
                array_agg({bytes: message_bytes, seconds: transfer_ns / 1e9}), group_size
            ) AS fit
        FROM calls
        WHERE group_size IS NOT NULL
        GROUP BY trace, group_size
    ),

    lists AS (
        SELECT trace, array_agg({group_size: group_size, fit: fit} ORDER BY group_size) AS by_group_size
        FROM fits
        GROUP BY trace
    ),

    most AS (
        SELECT trace, group_size, fit, fit.samples >= 5 AS enough
        FROM fits
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY fit.samples DESC, group_size DESC
        ) = 1
    ),

    coverage AS (
        SELECT trace, CAST(sum(sized_calls) AS DOUBLE) / nullif(sum(calls), 0) AS size_coverage_ratio
        FROM _sized_calls
        WHERE collective = 'all_reduce'
        GROUP BY trace
    ),

    final AS (
        SELECT
            m.trace,
            CASE WHEN m.enough THEN m.fit.bandwidth_bytes_per_s END AS hockney_inverse_beta_Bps,
            CASE WHEN m.enough THEN m.fit.r2 END AS r2,
            m.fit.samples AS samples,
            m.fit.sizes AS sizes,
            m.group_size,
            CASE WHEN m.enough THEN m.fit.n_half_bytes END AS n_half_bytes,
            l.by_group_size,
            m.fit.flag AS flag,
            v.size_coverage_ratio
        FROM most AS m
        INNER JOIN lists AS l ON l.trace = m.trace
        LEFT JOIN coverage AS v ON v.trace = m.trace
    )

SELECT
    trace, hockney_inverse_beta_Bps, r2, samples, sizes, group_size, n_half_bytes, by_group_size, flag,
    size_coverage_ratio
FROM final
ORDER BY trace
