-- @metric   memory_oom
-- @version  1
-- @area     memory
-- @summary  Allocations that failed for want of memory, and what was allocated then.
-- @grain    trace
-- @profilers memory
-- @reads    memory_events _memory_levels _memory_alive _memory_stack_names _memory_sources
--           _memory_reasons
-- @reason   (SELECT why FROM _memory_reasons WHERE what = 'events')
--           | the trace has no memory snapshot with events
-- @value    oom_events
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   oom_events BIGINT value count lower | Failed allocations, all ranks.
-- @column   per_event LIST value - | Of each: rank, device, time, bytes asked for, bytes the device
--           had left, what was allocated and reserved, and the 5 call stacks that held most (of the
--           first 10 of a device).
-- @source   metrics 5.4 (action oom)
WITH
    failures AS (
        SELECT
            e.trace, e.rank, e.source_id, e.device, e.event_id, e.ts_ns, e.size, e.device_free,
            l.allocated_bytes, l.reserved_bytes
        FROM memory_events AS e
        LEFT JOIN _memory_levels AS l
            ON l.trace = e.trace
            AND l.event_id = e.event_id
        WHERE e.action = 'oom'
    ),

    stacks AS (
        SELECT
            a.trace, a.event_id, a.alive_bytes, n.frames,
            row_number() OVER (
                PARTITION BY a.trace, a.event_id ORDER BY a.alive_bytes DESC, a.stack_id
            ) AS place
        FROM _memory_alive AS a
        LEFT JOIN _memory_stack_names AS n ON n.trace = a.trace AND n.stack_id = a.stack_id
        WHERE a.moment = 'oom'
    ),

    stack_lists AS (
        SELECT
            trace,
            event_id,
            array_agg({alive_bytes: alive_bytes, frames: frames} ORDER BY place) AS stacks
        FROM stacks
        WHERE place <= 5
        GROUP BY trace, event_id
    ),

    lists AS (
        SELECT
            f.trace,
            count(*) AS failure_count,
            array_agg(
                {
                    rank: f.rank,
                    device: f.device,
                    ts_ns: f.ts_ns,
                    asked_bytes: f.size,
                    device_free_bytes: f.device_free,
                    allocated_bytes: f.allocated_bytes,
                    reserved_bytes: f.reserved_bytes,
                    stacks: s.stacks
                }
                ORDER BY f.rank, f.event_id
            ) AS per_event
        FROM failures AS f
        LEFT JOIN stack_lists AS s ON s.trace = f.trace AND s.event_id = f.event_id
        GROUP BY f.trace
    )

SELECT t.trace, coalesce(l.failure_count, 0) AS oom_events, l.per_event
FROM (SELECT DISTINCT trace FROM memory_events) AS t
LEFT JOIN lists AS l ON l.trace = t.trace
ORDER BY t.trace
