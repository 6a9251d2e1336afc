-- @view     traffic
-- @summary  Communication events of all ranks by kind: how many, what they carry, how long they
--           take.
-- @requires collectives
-- @null     the trace has no communication
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   collective VARCHAR dim - | Kind.
-- @column   calls BIGINT value calls | Events, each rank's share of a call counted.
-- @column   sized_calls BIGINT value calls | Those whose message size is known.
-- @column   message_bytes BIGINT value bytes | Message sizes of these added up; NULL where none is
--           known.
-- @column   share_pct DOUBLE value pct | Share of all known bytes.
-- @column   mean_us DOUBLE value us lower | Mean duration.
-- @column   total_ms DOUBLE value ms lower | Durations added up.
-- @source   metrics 2.L, with bytes as in 1.4
WITH
    kinds AS (
        SELECT
            trace, collective,
            count(*) AS calls,
            count(message_bytes) AS sized_calls,
            sum(message_bytes) AS message_bytes,
            avg(dur_ns) / 1e3 AS mean_us,
            sum(dur_ns) / 1e6 AS total_ms
        FROM collectives
        GROUP BY trace, collective
    )

SELECT
    trace, collective, calls, sized_calls,
    TRY_CAST(message_bytes AS BIGINT) AS message_bytes,
    100 * CAST(message_bytes AS DOUBLE) / nullif(sum(message_bytes) OVER (PARTITION BY trace), 0) AS share_pct,
    mean_us, total_ms
FROM kinds
ORDER BY trace, message_bytes DESC NULLS LAST, calls DESC, collective
