-- @metric   idle_causes
-- @version  1
-- @area     devices
-- @summary  Why devices are idle: waiting for the host to launch, for the launch to arrive, for the
--           next kernel to begin, or for something else.
-- @grain    trace
-- @profilers kineto nsys
-- @requires device_events busy_intervals launches
-- @reads    _idle_sizes _idle_operators _device_counts
-- @value    host_wait_pct
-- @coverage launch_known_ratio | the launch of what ends an idle gap
-- @null     no device has a gap between two busy spans
-- @check    (SELECT count(*) FROM _device_counts WHERE source <> 'xla') > 0
--           | XLA launches whole programs, so that its device events have no launches of their own
-- @param    kernel_wait_ns BIGINT 30 | A gap not longer than this before an event that was already
--           launched is what it takes to begin the next kernel.
-- @param    threshold_us DOUBLE 10 | Gaps from this length on are macro gaps, shorter ones micro
--           gaps.
-- @param    top BIGINT 5 | How many operators by_operator lists.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   host_wait_pct DOUBLE value pct lower | Of the idle time of a rank, the share before the
--           launch call of what ends the gap had returned; mean over ranks.
-- @column   launch_latency_pct DOUBLE value pct lower | The share after that, in gaps in which the
--           call returned.
-- @column   kernel_wait_pct DOUBLE value pct lower | The share in gaps not longer than
--           kernel_wait_ns before an event that was launched before the gap.
-- @column   other_pct DOUBLE value pct lower | The share in longer gaps before such an event:
--           waiting for another stream, an event, or a call of another rank.
-- @column   unknown_pct DOUBLE value pct | The share in gaps that end with an event whose launch is
--           not in the trace.
-- @column   idle_ms DOUBLE value ms lower | Gaps between busy spans, summed over the devices of a
--           rank, mean over ranks; all shares and times are of it.
-- @column   host_wait_ms DOUBLE value ms lower | Host wait likewise.
-- @column   launch_latency_ms DOUBLE value ms lower | Launch latency.
-- @column   kernel_wait_ms DOUBLE value ms lower | Kernel wait.
-- @column   other_ms DOUBLE value ms lower | Other.
-- @column   unknown_ms DOUBLE value ms | Unknown.
-- @column   micro_idle_ms DOUBLE value ms lower | Gaps shorter than threshold_us.
-- @column   macro_idle_ms DOUBLE value ms lower | Gaps not shorter.
-- @column   gaps_count BIGINT value count | Gaps of all ranks.
-- @column   launch_known_ratio DOUBLE value ratio | Share of the idle time of all ranks in gaps
--           that end with an event whose launch is known.
-- @column   by_rank LIST value - | Of each rank: idle time, each cause in ms and in percent of it,
--           micro and macro gaps in ms, and how many gaps have which cause (a gap in which the call
--           returned counts as host_wait).
-- @column   by_operator LIST value - | What ran on the launching thread during the host waits:
--           outermost operators by name, most time first, summed over ranks; and none: the host ran
--           no operator there (Python, other code, or it waited).
-- @caveat   Idle is what lies between two busy spans of a device: its time before the first and
--           after the last event is not here. A device that waits inside a kernel of communication
--           is busy. Kernels that queue up follow each other within 1 or 2 us on many devices,
--           which the default of 30 ns counts as other: see -p kernel_wait_ns=.
-- @source   peers idle-time cause: HTA get_idle_time_breakdown (host wait, kernel wait, other;
--           kernel wait below 30 ns), here per device and not per stream, and with the launch call
--           counted until it returns
WITH
    gaps AS (
        SELECT
            trace, rank, gap_ns, gaps, idle_ns, host_wait_ns,
            CASE
                WHEN launched = 'unknown' THEN 'unknown'
                WHEN launched = 'in_gap' THEN 'host_wait'
                WHEN gap_ns <= $kernel_wait_ns THEN 'kernel_wait'
                ELSE 'other'
            END AS cause
        FROM _idle_sizes
        WHERE rank IS NOT NULL
    ),

    rank_sums AS (
        SELECT
            trace, rank,
            CAST(sum(idle_ns) AS DOUBLE) AS idle_ns,
            sum(host_wait_ns) AS host_wait_ns,
            coalesce(sum(idle_ns - host_wait_ns) FILTER (WHERE cause = 'host_wait'), 0) AS latency_ns,
            coalesce(sum(idle_ns) FILTER (WHERE cause = 'kernel_wait'), 0) AS kernel_wait_ns,
            coalesce(sum(idle_ns) FILTER (WHERE cause = 'other'), 0) AS other_ns,
            coalesce(sum(idle_ns) FILTER (WHERE cause = 'unknown'), 0) AS unknown_ns,
            coalesce(sum(idle_ns) FILTER (WHERE gap_ns < 1e3 * $threshold_us), 0) AS micro_ns,
            coalesce(sum(idle_ns) FILTER (WHERE gap_ns >= 1e3 * $threshold_us), 0) AS macro_ns,
            TRY_CAST(sum(gaps) AS BIGINT) AS gap_count,
            TRY_CAST(coalesce(sum(gaps) FILTER (WHERE cause = 'host_wait'), 0) AS BIGINT)
                AS host_wait_count,
            TRY_CAST(coalesce(sum(gaps) FILTER (WHERE cause = 'kernel_wait'), 0) AS BIGINT)
                AS kernel_wait_count,
            TRY_CAST(coalesce(sum(gaps) FILTER (WHERE cause = 'other'), 0) AS BIGINT) AS other_count,
            TRY_CAST(coalesce(sum(gaps) FILTER (WHERE cause = 'unknown'), 0) AS BIGINT)
                AS unknown_count
        FROM gaps
        GROUP BY trace, rank
    ),

    operator_sums AS (
        SELECT trace, name, sum(wait_ns) AS wait_ns
        FROM _idle_operators
        GROUP BY trace, name
    ),

    wait_sums AS (
        SELECT trace, sum(host_wait_ns) AS wait_ns
        FROM gaps
        WHERE cause = 'host_wait'
        GROUP BY trace
    ),

    operator_totals AS (
        SELECT trace, sum(wait_ns) AS wait_ns
        FROM operator_sums
        GROUP BY trace
    ),

    -- The outermost operators of a thread do not overlap: what they leave ran without one.
    shares AS (
        SELECT o.trace, o.name, o.wait_ns, t.wait_ns AS total_ns
        FROM operator_sums AS o
        INNER JOIN wait_sums AS t ON t.trace = o.trace
        WHERE o.wait_ns > 0
        QUALIFY row_number() OVER (
            PARTITION BY o.trace ORDER BY o.wait_ns DESC, o.name
        ) <= $top
        UNION ALL
        SELECT
            t.trace, 'none', greatest(t.wait_ns - coalesce(o.wait_ns, 0), 0), t.wait_ns
        FROM wait_sums AS t
        LEFT JOIN operator_totals AS o ON o.trace = t.trace
    ),

    operator_lists AS (
        SELECT
            trace,
            array_agg({
                name: name, host_wait_ms: wait_ns / 1e6,
                host_wait_pct: 100.0 * wait_ns / nullif(total_ns, 0)
            } ORDER BY wait_ns DESC, name) AS by_operator
        FROM shares
        GROUP BY trace
    ),

    totals AS (
        SELECT
            trace,
            avg(100.0 * host_wait_ns / idle_ns ORDER BY rank) AS host_wait_pct,
            avg(100.0 * latency_ns / idle_ns ORDER BY rank) AS launch_latency_pct,
            avg(100.0 * kernel_wait_ns / idle_ns ORDER BY rank) AS kernel_wait_pct,
            avg(100.0 * other_ns / idle_ns ORDER BY rank) AS other_pct,
            avg(100.0 * unknown_ns / idle_ns ORDER BY rank) AS unknown_pct,
            avg(idle_ns / 1e6 ORDER BY rank) AS idle_ms,
            avg(host_wait_ns / 1e6 ORDER BY rank) AS host_wait_ms,
            avg(latency_ns / 1e6 ORDER BY rank) AS launch_latency_ms,
            avg(kernel_wait_ns / 1e6 ORDER BY rank) AS kernel_wait_ms,
            avg(other_ns / 1e6 ORDER BY rank) AS other_ms,
            avg(unknown_ns / 1e6 ORDER BY rank) AS unknown_ms,
            avg(micro_ns / 1e6 ORDER BY rank) AS micro_idle_ms,
            avg(macro_ns / 1e6 ORDER BY rank) AS macro_idle_ms,
            TRY_CAST(sum(gap_count) AS BIGINT) AS gaps_count,
            1.0 - sum(unknown_ns) / sum(idle_ns ORDER BY rank) AS launch_known_ratio,
            array_agg({
                rank: rank, idle_ms: idle_ns / 1e6,
                host_wait_ms: host_wait_ns / 1e6,
                host_wait_pct: 100.0 * host_wait_ns / idle_ns,
                launch_latency_ms: latency_ns / 1e6,
                launch_latency_pct: 100.0 * latency_ns / idle_ns,
                kernel_wait_ms: kernel_wait_ns / 1e6,
                kernel_wait_pct: 100.0 * kernel_wait_ns / idle_ns,
                other_ms: other_ns / 1e6, other_pct: 100.0 * other_ns / idle_ns,
                unknown_ms: unknown_ns / 1e6, unknown_pct: 100.0 * unknown_ns / idle_ns,
                micro_idle_ms: micro_ns / 1e6, macro_idle_ms: macro_ns / 1e6,
                gaps: gap_count, host_wait_gaps: host_wait_count,
                kernel_wait_gaps: kernel_wait_count, other_gaps: other_count,
                unknown_gaps: unknown_count
            } ORDER BY rank) AS by_rank
        FROM rank_sums
        GROUP BY trace
    )

SELECT
    t.trace, t.host_wait_pct, t.launch_latency_pct, t.kernel_wait_pct, t.other_pct,
    t.unknown_pct, t.idle_ms, t.host_wait_ms, t.launch_latency_ms, t.kernel_wait_ms,
    t.other_ms, t.unknown_ms, t.micro_idle_ms, t.macro_idle_ms, t.gaps_count,
    t.launch_known_ratio, t.by_rank, coalesce(o.by_operator, []) AS by_operator
FROM totals AS t
LEFT JOIN operator_lists AS o ON o.trace = t.trace
ORDER BY t.trace
