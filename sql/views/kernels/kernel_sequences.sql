-- @view     kernel_sequences
-- @summary  Sequences of kernels that operators launch, of all ranks: which operator, which kernels
--           one after the other, how often, how long. What comes again is worth fusing.
-- @requires launches device_events host_ranges host_events
-- @null     no operator launches two kernels or more
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   op_name VARCHAR dim - | Operator that no other encloses.
-- @column   kernels LIST dim - | Names of the kernels as recorded, in the order of their launches.
-- @column   kernel_count BIGINT value count | Kernels of the sequence.
-- @column   call_count BIGINT value count | Calls of the operator that launch it.
-- @column   total_us DOUBLE value us lower | Durations of the kernels of all calls added up.
-- @column   mean_us DOUBLE value us lower | Mean over the calls.
-- @column   op_us DOUBLE value us lower | Durations of these calls on the host added up.
-- @column   share_pct DOUBLE value pct | Share of the kernel time of all sequences.
-- @caveat   Sequences of more than 64 kernels are left out.
-- @source   get_frequent_cuda_kernel_sequences of HolisticTraceAnalysis, for every operator
WITH
    kernels AS (
        SELECT l.trace, l.rank, l.pid, l.tid, l.launch_ts_ns, l.event_id, d.name, d.dur_ns
        FROM launches AS l
        INNER JOIN device_events AS d ON d.event_id = l.event_id AND d.trace = l.trace
        WHERE d.class IN ('compute', 'comm') AND d.dur_ns IS NOT NULL
    ),

    operators AS (
        SELECT trace, rank, pid, tid, event_id, ts_ns, dur_ns
        FROM host_ranges
        WHERE kind = 'operator'
    ),

    enclosed AS (
        SELECT
            k.trace, o.event_id AS op_event_id, o.dur_ns AS op_ns, k.launch_ts_ns, k.event_id, k.name,
            k.dur_ns
        FROM kernels AS k
        ASOF INNER JOIN operators AS o
            ON o.trace = k.trace AND o.rank = k.rank AND o.pid = k.pid AND o.tid = k.tid
            AND o.ts_ns <= k.launch_ts_ns
        WHERE k.launch_ts_ns < o.ts_ns + o.dur_ns
    ),

    calls AS (
        SELECT
            trace, op_event_id,
            array_agg(name ORDER BY launch_ts_ns, event_id) AS kernels,
            sum(dur_ns) AS kernel_ns,
            any_value(op_ns) AS op_ns
        FROM enclosed
        GROUP BY trace, op_event_id
        HAVING count(*) BETWEEN 2 AND 64
    )

SELECT
    c.trace, h.name AS op_name, c.kernels,
    CAST(len(c.kernels) AS BIGINT) AS kernel_count,
    count(*) AS call_count,
    sum(c.kernel_ns) / 1e3 AS total_us,
    sum(c.kernel_ns) / 1e3 / count(*) AS mean_us,
    sum(c.op_ns) / 1e3 AS op_us,
    100 * CAST(sum(c.kernel_ns) AS DOUBLE)
        / nullif(sum(sum(c.kernel_ns)) OVER (PARTITION BY c.trace), 0) AS share_pct
FROM calls AS c
INNER JOIN host_events AS h ON h.event_id = c.op_event_id AND h.trace = c.trace
GROUP BY c.trace, h.name, c.kernels
ORDER BY c.trace, total_us DESC, op_name, c.kernels
