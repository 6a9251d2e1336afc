-- @view     _cause_ranks
-- @summary  Of each rank that matched calls wait for, the rank that it is late because of, where it
--           waited itself.
-- @requires _wait_causes
-- @caveat   By the clocks that hold where nobody says (see _clock_shifts). cause_rank is NULL for a
--           rank that is late by itself.
SELECT trace, rank AS late_rank, cause_rank
FROM _wait_causes
WHERE aligned = by_itself
