-- @metric   hockney_by_collective
-- @version  1
-- @area     bandwidth
-- @summary  Hockney model T = alpha + beta x S of the calls of each kind, group size and link
--           class, and the bus bandwidth that large messages come near.
-- @grain    trace
-- @requires collectives
-- @reads    _comm_fits _sized_calls _comm_events _size_coverage _size_reasons
-- @value    bus_bw_gb_per_s
-- @answer   collective || ' over ' || group_size || ' ranks' || coalesce(', ' || link, '')
-- @coverage size_coverage_ratio | size and time of the calls are
-- @reason   (SELECT why FROM _size_reasons WHERE spoken = 'call')
--           | no call of more than one rank (beside barriers) states one size above 0 for all its
--           ranks and has a duration above 0
-- @null     no kind of call has 5 even calls in one group size, two message sizes and times that
--           grow with them
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   bus_bw_gb_per_s DOUBLE value gb_per_s higher | Bus factor / beta of the combination
--           with most calls, of those that have it from 5 calls or more.
-- @column   collective VARCHAR value - | Its kind.
-- @column   group_size BIGINT value - | Its group size: that of the trace, else the devices of the
--           card.
-- @column   link VARCHAR value - | Its link class: intra (all ranks in one host), inter, or NULL
--           where unknown.
-- @column   flag VARCHAR value - | Why its fit is to be doubted, as in hockney_fits; NULL where it
--           is sound.
-- @column   by_collective LIST value - | Of each combination: collective, group_size, link,
--           alpha_s, beta_s_per_byte, bandwidth_bytes_per_s, bus_bw_gb_per_s, n_half_bytes, r2,
--           samples, sizes, flag.
-- @column   size_coverage_ratio DOUBLE value ratio | Share of the calls (barriers and empty ones
--           left out) whose size and time are known.
-- @warn     flag IS NOT NULL | the fit is to be doubted: {flag}
-- @warn     (SELECT sum(even_calls) < sum(filled_calls) FROM _sized_calls WHERE collective =
--           'all_to_all')
--           | all-to-alls whose ranks send unlike amounts are in no fit: no single message size
--           describes them
-- @warn     (SELECT count(*) FILTER (WHERE collective_id IS NULL) > 0.05 * count(*) FROM
--           _comm_events WHERE collective <> 'barrier' AND message_bytes > 0 AND group_size IS
--           DISTINCT FROM 1)
--           | calls that are not matched over the ranks hold the waiting for late ranks: their fits
--           are of more than the transfer
-- @source   Hockney, Parallel Computing 20, 1994; nccl-tests doc/PERFORMANCE.md (bus factors);
--           metrics 4.3
WITH
    fits AS (
        SELECT trace, collective, group_size, link, fit, bus_bw_gb_per_s
        FROM _comm_fits
    ),

    lists AS (
        SELECT
            trace,
            array_agg(
                {collective: collective, group_size: group_size, link: link, alpha_s: fit.alpha_s,
                    beta_s_per_byte: fit.beta_s_per_byte,
                    bandwidth_bytes_per_s: fit.bandwidth_bytes_per_s,
                    bus_bw_gb_per_s: bus_bw_gb_per_s, n_half_bytes: fit.n_half_bytes, r2: fit.r2,
                    samples: fit.samples, sizes: fit.sizes, flag: fit.flag}
                ORDER BY collective, group_size, link
            ) AS by_collective
        FROM fits
        GROUP BY trace
    ),

    most AS (
        SELECT trace, collective, group_size, link, fit.flag AS flag, bus_bw_gb_per_s
        FROM fits
        WHERE fit.samples >= 5 AND bus_bw_gb_per_s IS NOT NULL
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY fit.samples DESC, collective, group_size, link
        ) = 1
    )

SELECT
    l.trace, m.bus_bw_gb_per_s, m.collective, m.group_size, m.link, m.flag, l.by_collective,
    v.size_coverage_ratio
FROM lists AS l
LEFT JOIN most AS m ON m.trace = l.trace
LEFT JOIN _size_coverage AS v ON v.trace = l.trace AND v.collective IS NULL
ORDER BY l.trace
