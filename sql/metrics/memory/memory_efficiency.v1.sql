-- @metric   memory_efficiency
-- @version  1
-- @area     memory
-- @summary  How much of what PyTorch's allocator holds the program has asked for, when its snapshot
--           was taken.
-- @grain    trace
-- @profilers memory
-- @requires memory_segments
-- @reads    _memory_ratios
-- @value    requested_over_reserved
-- @null     no segment was held, or the snapshot does not say what was asked for
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   requested_over_reserved DOUBLE value ratio higher | Requested bytes in use / reserved
--           bytes, of all devices of a rank; mean over ranks. The headline: what the program asked
--           for of all that the device gave up, so that rounding, fragmentation and cached blocks
--           all show.
-- @column   active_over_allocated DOUBLE value ratio | Active / allocated bytes, likewise: above 1
--           where freed memory waits for a stream.
-- @column   per_rank LIST value - | Both of each rank.
-- @source   metrics 2.G memory_efficiency (defect D54: the guide names one ratio and computes the
--           other)
SELECT
    trace,
    avg(requested_over_reserved) AS requested_over_reserved,
    avg(active_over_allocated) AS active_over_allocated,
    array_agg(
        {
            rank: rank,
            requested_over_reserved: requested_over_reserved,
            active_over_allocated: active_over_allocated
        }
        ORDER BY rank
    ) AS per_rank
FROM _memory_ratios
GROUP BY trace
ORDER BY trace
