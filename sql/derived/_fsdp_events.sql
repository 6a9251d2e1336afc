-- @derived  _fsdp_events
-- @partition rank
-- @summary  Device events that a range of FSDP launched, with the innermost such range.
-- @requires _fsdp_ranges _launched _ranges
-- @source   metrics 2.H
SELECT
    l.source, l.rank, l.event_id, l.device, l.class, l.start_ns, l.end_ns, l.step, f.operation, f.layer
FROM _launched AS l
INNER JOIN _ranges AS r ON r.event_id = l.range_event_id AND r.kind = 'annotation'
INNER JOIN _fsdp_ranges AS f ON f.event_id = r.fsdp_event_id
