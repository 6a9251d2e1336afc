-- @metric   memory_fragmentation
-- @version  1
-- @area     memory
-- @summary  Share of the memory that PyTorch's allocator holds and nothing uses, when its snapshot
--           was taken.
-- @grain    trace
-- @profilers memory
-- @requires memory_segments
-- @reads    _memory_ratios
-- @value    external_ratio
-- @null     no segment was held
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   external_ratio DOUBLE value ratio lower | (reserved - allocated) / reserved bytes, of
--           all devices of a rank; mean over ranks.
-- @column   internal_ratio DOUBLE value ratio lower | (active - requested) / active bytes,
--           likewise: lost to rounding.
-- @column   scattered_ratio DOUBLE value ratio lower | 1 - largest free block / all free blocks,
--           likewise: 0 where what is free lies together.
-- @column   per_rank LIST value - | The three of each rank.
-- @caveat   After a step most memory is free again and stays reserved for the next one: a high
--           external ratio at that moment is no fault.
-- @source   metrics 2.G fragmentation
SELECT
    trace,
    avg(external_ratio) AS external_ratio,
    avg(internal_ratio) AS internal_ratio,
    avg(scattered_ratio) AS scattered_ratio,
    array_agg(
        {
            rank: rank,
            external_ratio: external_ratio,
            internal_ratio: internal_ratio,
            scattered_ratio: scattered_ratio
        }
        ORDER BY rank
    ) AS per_rank
FROM _memory_ratios
GROUP BY trace
ORDER BY trace
