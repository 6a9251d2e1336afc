-- @view     _nvlink_intervals
-- @summary  What a link of NVLink moved between two samples of its counters, one direction.
-- @requires counters
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   device BIGINT dim - | Device; NULL where the file of the samples does not say it.
-- @column   series VARCHAR dim - | Counter: one of a link and direction.
-- @column   direction VARCHAR dim - | tx or rx.
-- @column   link VARCHAR dim - | Number of the link, or all.
-- @column   start_ns BIGINT value ns | First sample.
-- @column   end_ns BIGINT value ns | Next sample.
-- @column   moved_bytes BIGINT value bytes | Bytes of user data between the two; NULL where the
--           counter ran backwards.
-- @caveat   Where single links and all links together were sampled, single links count.
-- @source   metrics 2.D nvlink_throughput; NVML: NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX and _RX are
--           KiB so far
WITH
    samples AS (
        SELECT
            trace, device, name, ts_ns, value,
            split_part(split_part(name, '@', 1), '.', 2) AS direction,
            split_part(split_part(name, '@', 1), '.', 3) AS link,
            split_part(name, '@', 2) AS file
        FROM counters
        WHERE name LIKE 'nvlink.%' AND unit = 'KiB'
    ),

    wanted AS (
        SELECT trace, device, name, ts_ns, value, direction, link
        FROM samples
        QUALIFY link <> 'all' OR count(*) FILTER (WHERE link <> 'all') OVER (
            PARTITION BY trace, device, file, direction
        ) = 0
    ),

    pairs AS (
        SELECT
            trace, device, name, direction, link, value,
            lag(ts_ns) OVER w AS start_ns,
            ts_ns AS end_ns,
            lag(value) OVER w AS value_before
        FROM wanted
        WINDOW w AS (PARTITION BY trace, device, name ORDER BY ts_ns, value)
    )

SELECT
    trace, device, name AS series, direction, link, start_ns, end_ns,
    CASE WHEN value >= value_before THEN TRY_CAST(1024 * (value - value_before) AS BIGINT) END AS moved_bytes
FROM pairs
WHERE end_ns > start_ns
