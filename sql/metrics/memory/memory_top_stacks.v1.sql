-- @metric   memory_top_stacks
-- @version  1
-- @area     memory
-- @summary  Which call stacks hold the memory when most is allocated: the share of the largest one.
-- @grain    trace
-- @profilers memory
-- @reads    _memory_alive _memory_stack_names _memory_sources _memory_reasons
-- @reason   (SELECT why FROM _memory_reasons WHERE what = 'events')
--           | the trace has no memory snapshot with events
-- @value    largest_stack_ratio
-- @null     nothing was allocated at any time of the recording, or no call stack of it is known
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   largest_stack_ratio DOUBLE value ratio | Bytes of the largest known stack / all bytes
--           at the peaks of all ranks and devices.
-- @column   known_ratio DOUBLE value ratio higher | Share of the bytes whose call stack is known.
-- @column   peak_allocated_gib DOUBLE value gib lower | Bytes of blocks at the peaks, summed over
--           ranks and devices.
-- @column   num_stacks BIGINT value count | Known stacks.
-- @column   top_stacks LIST value - | The 20 largest: bytes, share, allocations, ranks, the 12
--           innermost frames.
-- @coverage known_ratio | call stacks are
-- @caveat   Stacks are those of the program that recorded them: recorded without Python frames or
--           only for some events, they say less.
-- @source   seed 002 "memory allocation patterns"; formats_kineto section 11
WITH
    alive AS (
        SELECT a.trace, a.rank, a.alive_bytes, a.allocation_count, n.frames, n.whole
        FROM _memory_alive AS a
        LEFT JOIN _memory_stack_names AS n ON n.trace = a.trace AND n.stack_id = a.stack_id
        WHERE a.moment = 'peak'
    ),

    totals AS (
        SELECT
            trace,
            sum(alive_bytes) AS all_bytes,
            sum(CASE WHEN whole IS NOT NULL THEN alive_bytes ELSE 0 END) AS known_bytes
        FROM alive
        GROUP BY trace
    ),

    -- The same frames on several ranks are one stack.
    stacks AS (
        SELECT
            trace,
            whole,
            any_value(frames) AS frames,
            sum(alive_bytes) AS bytes,
            sum(allocation_count) AS allocation_count,
            count(DISTINCT rank) AS rank_count,
            row_number() OVER (
                PARTITION BY trace ORDER BY sum(alive_bytes) DESC, whole
            ) AS place
        FROM alive
        WHERE whole IS NOT NULL
        GROUP BY trace, whole
    ),

    stack_lists AS (
        SELECT
            s.trace,
            max(s.bytes) AS largest_bytes,
            count(*) AS stack_count,
            array_agg(
                {
                    alive_bytes: TRY_CAST(s.bytes AS BIGINT),
                    share: s.bytes / nullif(t.all_bytes, 0),
                    allocations: TRY_CAST(s.allocation_count AS BIGINT),
                    ranks: s.rank_count,
                    frames: s.frames
                }
                ORDER BY s.place
            ) FILTER (WHERE s.place <= 20) AS top_stacks
        FROM stacks AS s
        INNER JOIN totals AS t ON t.trace = s.trace
        GROUP BY s.trace
    )

SELECT
    t.trace,
    l.largest_bytes / nullif(t.all_bytes, 0) AS largest_stack_ratio,
    t.known_bytes / nullif(t.all_bytes, 0) AS known_ratio,
    t.all_bytes / 1073741824 AS peak_allocated_gib,
    coalesce(l.stack_count, 0) AS num_stacks,
    l.top_stacks
FROM totals AS t
LEFT JOIN stack_lists AS l ON l.trace = t.trace
ORDER BY t.trace
