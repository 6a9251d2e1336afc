-- @view     hockney_fits
-- @summary  Hockney model T = alpha + beta x S of the calls of each kind, group size and link.
-- @requires _bus_calls
-- @null     no call of several ranks states size and time
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   collective VARCHAR dim - | Kind.
-- @column   group_size BIGINT dim - | Ranks of the group.
-- @column   link VARCHAR dim - | intra (one host), inter, or NULL where unknown.
-- @column   alpha_us DOUBLE value us lower | Time of an empty message.
-- @column   beta_s_per_gb DOUBLE value s_per_gb lower | Time of one more GB.
-- @column   bandwidth_gb_per_s DOUBLE value gb_per_s higher | 1 / beta: the algorithm bandwidth
--           that large messages come near.
-- @column   n_half_bytes DOUBLE value bytes | Message size at which half of it is reached: alpha /
--           beta.
-- @column   r2 DOUBLE value ratio | Share of the variance that the line explains.
-- @column   samples BIGINT value - | Calls of the fit.
-- @column   sizes BIGINT value - | Different message sizes among them.
-- @column   min_bytes BIGINT value bytes | Smallest.
-- @column   max_bytes BIGINT value bytes | Largest.
-- @column   flag VARCHAR value - | Why the fit is to be doubted, all that hold; NULL where it is
--           sound: few_calls (below 5), one_size (no fit), two_sizes (a line goes through any two,
--           r2 says nothing), low_r2 (below 0.8), beta_clamped (times do not grow with the size),
--           alpha_clamped (the line goes through the origin), theil_sen_differs (some sizes are off
--           the line).
-- @caveat   An all_to_all whose ranks send unlike amounts is in no fit: no single message size
--           describes it.
-- @source   metrics 4.3; alpha and beta are at least 0, by median times of sizes; kinds, sizes and
--           links as in collective_sizes
WITH
    fits AS (
        SELECT
            trace, collective, group_size, link,
            hockney_fit(array_agg({bytes: message_bytes, seconds: transfer_ns / 1e9})) AS fit,
            min(message_bytes) AS min_bytes,
            max(message_bytes) AS max_bytes
        FROM _bus_calls
        WHERE message_bytes > 0 AND transfer_ns > 0 AND NOT uneven
        GROUP BY trace, collective, group_size, link
    )

SELECT
    trace, collective, group_size, link,
    fit.alpha_s * 1e6 AS alpha_us,
    fit.beta_s_per_byte * 1e9 AS beta_s_per_gb,
    fit.bandwidth_bytes_per_s / 1e9 AS bandwidth_gb_per_s,
    fit.n_half_bytes AS n_half_bytes,
    fit.r2 AS r2,
    fit.samples AS samples,
    fit.sizes AS sizes,
    min_bytes,
    max_bytes,
    fit.flag AS flag
FROM fits
ORDER BY trace, collective, group_size, link
