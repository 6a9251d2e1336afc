-- @view     _group_links
-- @summary  Link of the calls of groups of one size, by what their ranks say (seen_link: intra,
--           inter, NULL), and the bandwidth of that link by the card.
-- @requires collectives _card_links
-- @caveat   Where the ranks do not say the link, the card does: a job of one node is intra, a group
--           larger than a node inter.
WITH
    group_sizes AS (
        SELECT DISTINCT trace, group_size
        FROM collectives
    ),

    seen_links AS (
        SELECT seen_link
        FROM (VALUES ('intra'), ('inter'), (NULL)) AS said (seen_link)
    ),

    linked AS (
        SELECT
            g.trace, g.group_size, s.seen_link,
            coalesce(
                s.seen_link,
                CASE
                    WHEN l.job_size <= l.node_size THEN 'intra'
                    WHEN g.group_size > l.node_size THEN 'inter'
                END
            ) AS link,
            l.intra_gb_per_s, l.inter_gb_per_s
        FROM group_sizes AS g
        CROSS JOIN seen_links AS s
        LEFT JOIN _card_links AS l ON l.trace = g.trace
    )

SELECT
    trace, group_size, seen_link, link,
    CASE link WHEN 'intra' THEN intra_gb_per_s WHEN 'inter' THEN inter_gb_per_s END AS link_bw_gb_per_s
FROM linked
