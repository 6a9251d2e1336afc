-- @view     _kind_volumes
-- @summary  Bytes that a rank communicates by each kind of call in the whole trace and in a step,
--           mean over ranks.
-- @requires _comm_volumes
SELECT
    trace, collective,
    CAST(sum(message_bytes) AS DOUBLE) / max(num_ranks) / 1e9 AS message_gb,
    CAST(sum(wire_bytes) AS DOUBLE) / max(num_ranks) / 1e9 AS wire_gb,
    CAST(sum(message_bytes) AS DOUBLE) / 1e9 AS all_ranks_gb,
    CASE WHEN bool_or(has_steps)
        THEN sum(step_message_bytes ORDER BY rank) / max(step_ranks) / 1e9 END AS per_step_gb,
    TRY_CAST(sum(calls) AS BIGINT) AS calls,
    TRY_CAST(sum(sized) AS BIGINT) AS calls_with_size,
    CAST(sum(sized) AS DOUBLE) / nullif(sum(sizable), 0) AS size_coverage_ratio
FROM _comm_volumes
GROUP BY trace, collective
