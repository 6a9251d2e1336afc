-- @view     message_sizes
-- @summary  Communication calls by kind and power of two of their message size: how often, and how
--           much they carry.
-- @requires collective_sizes
-- @null     no call of several ranks states a message size above 0
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   collective VARCHAR dim - | Kind.
-- @column   from_bytes BIGINT dim bytes | Smallest size of the class: a power of two.
-- @column   to_bytes BIGINT dim bytes | Its end: the next power of two is no longer in it.
-- @column   calls BIGINT value calls | Calls, once each over their ranks.
-- @column   total_bytes BIGINT value bytes | Their message sizes added up.
-- @column   total_ms DOUBLE value ms lower | Their transfer times added up.
-- @column   share_pct DOUBLE value pct | Share of the bytes of all calls.
-- @source   collective_sizes, sizes by powers of two
WITH
    classes AS (
        SELECT
            trace, collective,
            -- The number of binary digits: exact, as a logarithm is not.
            length(bin(message_bytes)) - 1 AS exponent,
            calls, total_bytes, total_ms
        FROM collective_sizes
    ),

    sums AS (
        SELECT
            trace, collective, exponent,
            sum(calls) AS calls,
            sum(total_bytes) AS total_bytes,
            sum(total_ms ORDER BY total_ms) AS total_ms
        FROM classes
        GROUP BY trace, collective, exponent
    )

SELECT
    trace, collective,
    TRY_CAST(CAST(1 AS HUGEINT) << exponent AS BIGINT) AS from_bytes,
    TRY_CAST(CAST(2 AS HUGEINT) << exponent AS BIGINT) AS to_bytes,
    CAST(calls AS BIGINT) AS calls,
    TRY_CAST(total_bytes AS BIGINT) AS total_bytes,
    total_ms,
    100 * CAST(total_bytes AS DOUBLE) / sum(total_bytes) OVER (PARTITION BY trace) AS share_pct
FROM sums
ORDER BY trace, collective, exponent
