-- @view     trace_series
-- @summary  The series that a trace belongs to, and when it was recorded.
-- @requires sources
-- @reads    cards ranks
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   series VARCHAR value - | Series, as the card says it (`series`, or `workload.series`).
-- @column   recorded_ns BIGINT value ns | Time of recording since the Unix epoch: as the card says
--           it (`recorded`, ISO 8601, UTC where it names no zone), else the first event of any
--           rank; NULL where the clock of the trace has no epoch.
-- @column   recorded_by VARCHAR value - | card or clock.
-- @null     there are no traces
-- @source   Kineto: baseTimeNanoseconds; nsys: the start of the session in UTC
WITH
    said AS (
        SELECT
            trace,
            coalesce(
                json_extract_string(card, '$.series'), json_extract_string(card, '$.workload.series')
            ) AS series,
            coalesce(
                json_extract_string(card, '$.recorded'),
                json_extract_string(card, '$.workload.recorded')
            ) AS recorded
        FROM cards
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY path) = 1
    ),

    dated AS (
        SELECT
            trace, series,
            CASE
                WHEN regexp_matches(recorded, ':[0-9.]+ *(Z|[+-][0-9]{2}(:?[0-9]{2})?)$')
                    THEN epoch_ns(try_cast(recorded AS TIMESTAMPTZ))
                ELSE epoch_ns(try_cast(recorded AS TIMESTAMP))
            END AS recorded_ns
        FROM said
    ),

    -- Clocks that count from the start of a machine or of a trace are below the year 2001.
    clocks AS (
        SELECT trace, min(first_ts_ns) AS first_ns
        FROM ranks
        WHERE first_ts_ns >= 1000000000000000000
        GROUP BY trace
    ),

    traces_known AS (
        SELECT DISTINCT trace
        FROM sources
    )

SELECT
    t.trace, s.series, coalesce(s.recorded_ns, c.first_ns) AS recorded_ns,
    CASE
        WHEN s.recorded_ns IS NOT NULL THEN 'card'
        WHEN c.first_ns IS NOT NULL THEN 'clock'
    END AS recorded_by
FROM traces_known AS t
LEFT JOIN dated AS s ON s.trace = t.trace
LEFT JOIN clocks AS c ON c.trace = t.trace
