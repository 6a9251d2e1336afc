-- @metric   hockney_alpha_s
-- @version  1
-- @area     bandwidth
-- @summary  Latency of one step of a ring all-reduce: alpha of the Hockney model.
-- @grain    trace
-- @requires collectives
-- @reads    _comm_calls _size_coverage _sized_calls _size_reasons
-- @value    hockney_alpha_s
-- @coverage size_coverage_ratio | size and time of the calls are
-- @reason   (SELECT why_no_line FROM _size_reasons WHERE spoken = 'all_reduce')
--           | the trace has fewer than 5 all_reduce calls of more than one rank, of known sizes, at
--           least two, and with durations above 0
-- @null     the group size with most all_reduce calls has fewer than 5 of them or one message size,
--           or no group size above 1 is known (-p n_chips=N gives it)
-- @param    n_chips BIGINT NULL | Ranks of a group where the trace does not state them; then the
--           card counts.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   hockney_alpha_s DOUBLE value s lower | Time of a step with an empty message.
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
    fits AS (
        SELECT
            trace,
            hockney_fit_rings(array_agg({
                group_size: coalesce(group_size, $n_chips, card_size),
                bytes: message_bytes, seconds: transfer_ns / 1e9
            })) AS rings
        FROM _comm_calls
        WHERE collective = 'all_reduce' AND message_bytes > 0 AND transfer_ns > 0
        GROUP BY trace
    ),

    most AS (
        SELECT
            trace, rings,
            list_reduce(
                rings, lambda a, b: CASE WHEN b.fit.samples >= a.fit.samples THEN b ELSE a END
            ) AS ring
        FROM fits
        WHERE len(rings) > 0
    )

SELECT
    m.trace,
    CASE WHEN ring.fit.samples >= 5 THEN ring.fit.alpha_s END AS hockney_alpha_s,
    CASE WHEN ring.fit.samples >= 5 THEN ring.fit.r2 END AS r2,
    ring.fit.samples AS samples, ring.fit.sizes AS sizes, ring.group_size AS group_size,
    CASE WHEN ring.fit.samples >= 5 THEN ring.fit.n_half_bytes END AS n_half_bytes,
    m.rings AS by_group_size, ring.fit.flag AS flag, v.size_coverage_ratio
FROM most AS m
LEFT JOIN _size_coverage AS v ON v.trace = m.trace AND v.collective = 'all_reduce'
ORDER BY m.trace
