-- @view     _model_size
-- @summary  What the workload card says of the model: parameters (those active per token, where it
--           says so) and floating-point operations of a parameter per token.
-- @requires _rank_list _workload
WITH
    ingested AS (
        SELECT DISTINCT trace
        FROM _rank_list
    )

SELECT
    i.trace,
    c.phase,
    c.model_params,
    -- Forward 2; backward twice as much again.
    CASE WHEN lower(c.phase) IN ('inference', 'serving') THEN 2 ELSE 6 END AS flops_per_param
FROM ingested AS i
LEFT JOIN _workload AS c ON c.trace = i.trace
