-- @view     _rank_memory
-- @summary  Most bytes that PyTorch had allocated on a device of each rank, by the best recording
--           of the trace, and the memory of the device.
-- @requires _memory_recordings ranks
WITH
    peaks AS (
        SELECT
            trace, rank, method,
            max(peak_allocated_bytes) AS allocated_bytes,
            max(peak_reserved_bytes) AS reserved_bytes
        FROM _memory_recordings
        GROUP BY trace, rank, method
    ),

    devices AS (
        SELECT trace, rank, max(device_memory_bytes) AS device_bytes
        FROM ranks
        WHERE device_memory_bytes > 0
        GROUP BY trace, rank
    )

SELECT p.trace, p.rank, p.method, p.allocated_bytes, p.reserved_bytes, d.device_bytes
FROM peaks AS p
LEFT JOIN devices AS d ON d.trace = p.trace AND d.rank = p.rank
