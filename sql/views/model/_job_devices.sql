-- @view     _job_devices
-- @summary  Devices of the job: those of the card, else the ranks of the job (times the devices of
--           a rank that drives several).
-- @requires ranks _windows _workload
WITH
    jobs AS (
        SELECT trace, max(world_size) AS world_size, count(DISTINCT rank) AS rank_count
        FROM ranks
        GROUP BY trace
    ),

    seen AS (
        SELECT
            trace, TRY_CAST(sum(greatest(device_count, 1)) AS BIGINT) AS device_count,
            max(greatest(device_count, 1)) AS rank_devices
        FROM _windows
        GROUP BY trace
    )

SELECT
    j.trace,
    coalesce(
        c.total_count,
        CASE
            WHEN j.world_size > j.rank_count
                THEN TRY_CAST(CAST(j.world_size AS HUGEINT) * coalesce(s.rank_devices, 1) AS BIGINT)
        END,
        greatest(s.device_count, j.rank_count)
    ) AS devices,
    c.total_count IS NOT NULL AS is_of_card
FROM jobs AS j
LEFT JOIN _workload AS c ON c.trace = j.trace
LEFT JOIN seen AS s ON s.trace = j.trace
