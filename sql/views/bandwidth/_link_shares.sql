-- @view     _link_shares
-- @summary  Of the transfer of calls whose kind has a sound fit, the share that grows with the
--           message size: beta x S of alpha + beta x S, weighted by the time of the calls.
-- @requires hockney_fits _bus_calls
-- @caveat   A fit counts where it has three sizes or more, and nothing to be doubted.
SELECT
    c.trace,
    sum(
        c.transfer_ns * (
            f.beta_s_per_gb * c.message_bytes
            / (f.beta_s_per_gb * c.message_bytes + f.alpha_us * 1e3)
        )
        ORDER BY c.transfer_ns, c.message_bytes
    ) / sum(c.transfer_ns) AS beta_share
FROM _bus_calls AS c
INNER JOIN hockney_fits AS f
    ON f.trace = c.trace
    AND f.collective = c.collective
    AND f.group_size IS NOT DISTINCT FROM c.group_size
    AND f.link IS NOT DISTINCT FROM c.link
WHERE c.message_bytes > 0 AND NOT c.uneven AND f.flag IS NULL
GROUP BY c.trace
