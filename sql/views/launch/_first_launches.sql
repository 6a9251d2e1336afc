-- @view     _first_launches
-- @summary  The first device event of each call on the host that launches any, with the delay from
--           the call to the event.
-- @materialize session
-- @partition rank
-- @requires _launch_calls
SELECT trace, rank, class, launch_delay_ns, call_ns
FROM _launch_calls
QUALIFY row_number() OVER (
    PARTITION BY trace, runtime_event_id ORDER BY ts_ns, event_id
) = 1
