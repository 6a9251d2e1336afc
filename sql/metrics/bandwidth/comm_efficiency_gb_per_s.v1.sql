-- @metric   comm_efficiency_gb_per_s
-- @version  1
-- @area     bandwidth
-- @summary  Bytes over the wire per second of communication: what a rank must send at least, over
--           the union of its calls.
-- @grain    trace
-- @requires collectives
-- @value    comm_efficiency_gb_per_s
-- @alias    comm_efficiency_gbps communication_efficiency
-- @coverage size_coverage_ratio | bytes of calls, by the time that they take, are
-- @null     no call has known wire bytes and a duration above 0
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   comm_efficiency_gb_per_s DOUBLE value gb_per_s higher | Wire bytes of a rank over the
--           union of the calls whose bytes are known; mean over the ranks that have such calls.
-- @column   job_gb_per_s DOUBLE value gb_per_s higher | Wire bytes of all ranks over the sum of
--           their unions.
-- @column   size_coverage_ratio DOUBLE value ratio | Sum of the durations of those calls over that
--           of all.
-- @column   per_rank MAP value gb_per_s | Efficiency of each rank.
-- @caveat   Waiting for the last rank is in the time: this is what a job gets out of its network,
--           not what the network can do. See avg_comm_bandwidth_GBps for that.
-- @source   metrics 2.C comm_efficiency_gbps (defect D29: the group of the event, not the number of
--           files)
WITH
    spans AS (
        SELECT
            trace, rank, device,
            sum(wire_bytes) FILTER (WHERE dur_ns IS NOT NULL) AS wire_bytes,
            interval_union_ns(array_agg({start_ns: ts_ns, end_ns: ts_ns + dur_ns})
                FILTER (WHERE wire_bytes IS NOT NULL AND dur_ns IS NOT NULL)) AS known_ns,
            sum(dur_ns) FILTER (WHERE wire_bytes IS NOT NULL) AS sized_ns,
            sum(dur_ns) AS all_ns
        FROM collectives
        GROUP BY trace, rank, device
    ),

    ranks AS (
        SELECT
            trace, rank, sum(wire_bytes) AS wire_bytes, sum(known_ns) AS known_ns,
            sum(sized_ns) AS sized_ns, sum(all_ns) AS all_ns
        FROM spans
        GROUP BY trace, rank
    )

SELECT
    trace,
    -- bytes/ns = GB/s
    avg(wire_bytes / nullif(CAST(known_ns AS DOUBLE), 0) ORDER BY rank) AS comm_efficiency_gb_per_s,
    sum(wire_bytes) / nullif(CAST(sum(known_ns) AS DOUBLE), 0) AS job_gb_per_s,
    coalesce(sum(sized_ns), 0) / nullif(CAST(sum(all_ns) AS DOUBLE), 0) AS size_coverage_ratio,
    map(
        array_agg(CAST(rank AS VARCHAR) ORDER BY rank),
        array_agg(wire_bytes / nullif(CAST(known_ns AS DOUBLE), 0) ORDER BY rank)
    ) AS per_rank
FROM ranks
GROUP BY trace
ORDER BY trace
