-- @view     _class_reasons
-- @summary  Why the classes of the device events do not say what the kernels of a trace do: names
--           that are lost, and CUDA graphs that were traced as a whole.
-- @reads    collectives _device_counts
-- @caveat   One row for each thing that is asked (what), whatever the trace has; NULL where the
--           classes say it.
WITH
    questions AS (
        SELECT what, doubt, inside
        FROM (VALUES
            (
                'communication', ', and with them whether they communicate',
                'communication inside them is'
            ),
            ('compute', ', and with them whether they compute', 'what computes inside them is'),
            ('kernels', ', and with them what they do', 'the kernels inside them are'),
            ('names', '', 'the kernels inside them are')
        ) AS q (what, doubt, inside)
    ),

    counts AS (
        SELECT
            count(*) AS events,
            coalesce(sum(nameless_events) FILTER (WHERE class = 'other'), 0) AS nameless,
            count(*) FILTER (WHERE class = 'graph') AS graphs,
            count(*) FILTER (WHERE class = 'comm') AS comms
        FROM _device_counts
    )

SELECT
    q.what,
    CASE
        WHEN q.what = 'communication' AND n.events = 0 AND c.calls = 0
            THEN 'the trace has neither device events nor gloo calls'
        WHEN n.nameless > 0 THEN 'the names of some kernels are lost' || q.doubt
        WHEN n.graphs > 0 AND (q.what <> 'communication' OR n.comms = 0)
            THEN 'whole CUDA graphs were traced, so that ' || q.inside || ' not in the trace'
    END AS why
FROM questions AS q
CROSS JOIN counts AS n
CROSS JOIN (SELECT count(*) AS calls FROM collectives) AS c
