-- @view     _class_reasons
-- @summary  Why the classes of the device events do not say what the kernels of a trace do: names
--           that are lost, and CUDA graphs that were traced as a whole.
-- @requires ranks
-- @reads    collectives _device_counts
-- @caveat   One row for each trace and each thing that is asked (what), whatever the trace has;
--           NULL where the classes say it.
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

    traces AS (
        SELECT DISTINCT trace
        FROM ranks
    ),

    counts AS (
        SELECT
            trace,
            coalesce(sum(nameless_events) FILTER (WHERE class = 'other'), 0) AS nameless,
            count(*) FILTER (WHERE class = 'graph') AS graphs,
            count(*) FILTER (WHERE class = 'comm') AS comms
        FROM _device_counts
        GROUP BY trace
    ),

    calls AS (
        SELECT DISTINCT trace
        FROM collectives
    )

SELECT
    t.trace, q.what,
    CASE
        WHEN q.what = 'communication' AND n.trace IS NULL AND c.trace IS NULL
            THEN 'the trace has neither device events nor gloo calls'
        WHEN n.nameless > 0 THEN 'the names of some kernels are lost' || q.doubt
        WHEN n.graphs > 0 AND (q.what <> 'communication' OR n.comms = 0)
            THEN 'whole CUDA graphs were traced, so that ' || q.inside || ' not in the trace'
    END AS why
FROM traces AS t
CROSS JOIN questions AS q
LEFT JOIN counts AS n ON n.trace = t.trace
LEFT JOIN calls AS c ON c.trace = t.trace
