-- @metric   hockney_link_utilization_pct
-- @version  1
-- @area     bandwidth
-- @summary  Bus bandwidth that large messages come near, against the link bandwidth of the workload
--           card.
-- @grain    trace
-- @requires collectives cards
-- @reads    _comm_fits _sized_calls _size_coverage _size_reasons
-- @value    hockney_link_utilization_pct
-- @coverage size_coverage_ratio | size and time of the calls are
-- @reason   (SELECT why FROM _size_reasons WHERE spoken = 'call')
--           | no call of more than one rank (beside barriers) states one size above 0 for all its
--           ranks and has a duration above 0
-- @check    (SELECT count(*) FROM cards WHERE scale_up_gbit_per_s > 0 OR scale_out_gbit_per_s > 0)
--           > 0
--           | the workload card states no link bandwidth
-- @null     no kind of call whose link class and link bandwidth are known has 5 even calls, two
--           message sizes and times that grow with them
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   hockney_link_utilization_pct DOUBLE value pct higher | 100 x fitted bus bandwidth /
--           link bandwidth of the combination with most calls, of those that have both from 5 calls
--           or more.
-- @column   collective VARCHAR value - | Its kind.
-- @column   group_size BIGINT value - | Its group size.
-- @column   link VARCHAR value - | Its link class: intra is held against scale-up, inter against
--           scale-out.
-- @column   bus_bw_gb_per_s DOUBLE value gb_per_s | Its fitted bus bandwidth.
-- @column   link_bw_gb_per_s DOUBLE value gb_per_s | Its link bandwidth: that of the card, in
--           Gbit/s, / 8.
-- @column   flag VARCHAR value - | Why its fit is to be doubted, as in hockney_fits; NULL where it
--           is sound.
-- @column   by_collective LIST value - | Of each combination: collective, group_size, link,
--           bus_bw_gb_per_s, link_bw_gb_per_s, utilization_pct, samples, flag.
-- @column   size_coverage_ratio DOUBLE value ratio | Share of the calls (barriers and empty ones
--           left out) whose size and time are known.
-- @warn     hockney_link_utilization_pct > 100
--           | the share is above 100 %: the card states less link bandwidth than the calls had, or
--           that of another link
-- @warn     flag IS NOT NULL | the fit is to be doubted: {flag}
-- @warn     (SELECT sum(even_calls) < sum(filled_calls) FROM _sized_calls WHERE collective =
--           'all_to_all')
--           | all-to-alls whose ranks send unlike amounts are in no fit: no single message size
--           describes them
-- @caveat   Bus bandwidth is that of one direction: a card that states both directions together
--           halves the percentage.
-- @source   nccl-tests doc/PERFORMANCE.md (bus bandwidth); metrics 2.D (defects D35, D36, D39)
WITH
    links AS (
        SELECT
            trace,
            max(scale_up_gbit_per_s) / 8 AS intra_gb_per_s,
            max(scale_out_gbit_per_s) / 8 AS inter_gb_per_s
        FROM cards
        GROUP BY trace
    ),

    fits AS (
        SELECT
            f.trace, f.collective, f.group_size, f.link, f.fit, f.bus_bw_gb_per_s,
            nullif(
                CASE f.link WHEN 'intra' THEN l.intra_gb_per_s WHEN 'inter' THEN l.inter_gb_per_s END, 0
            ) AS link_bw_gb_per_s
        FROM _comm_fits AS f
        INNER JOIN links AS l ON l.trace = f.trace
    ),

    lists AS (
        SELECT
            trace,
            array_agg(
                {collective: collective, group_size: group_size, link: link,
                    bus_bw_gb_per_s: bus_bw_gb_per_s, link_bw_gb_per_s: link_bw_gb_per_s,
                    utilization_pct: 100 * bus_bw_gb_per_s / link_bw_gb_per_s,
                    samples: fit.samples, flag: fit.flag}
                ORDER BY collective, group_size, link
            ) AS by_collective
        FROM fits
        GROUP BY trace
    ),

    most AS (
        SELECT
            trace, collective, group_size, link, bus_bw_gb_per_s, link_bw_gb_per_s, fit.flag AS flag,
            100 * bus_bw_gb_per_s / link_bw_gb_per_s AS utilization_pct
        FROM fits
        WHERE fit.samples >= 5 AND bus_bw_gb_per_s / link_bw_gb_per_s IS NOT NULL
        QUALIFY row_number() OVER (
            PARTITION BY trace ORDER BY fit.samples DESC, collective, group_size, link
        ) = 1
    )

SELECT
    l.trace,
    m.utilization_pct AS hockney_link_utilization_pct,
    m.collective, m.group_size, m.link, m.bus_bw_gb_per_s, m.link_bw_gb_per_s, m.flag,
    l.by_collective,
    v.size_coverage_ratio
FROM lists AS l
LEFT JOIN most AS m ON m.trace = l.trace
LEFT JOIN _size_coverage AS v ON v.trace = l.trace AND v.collective IS NULL
ORDER BY l.trace
