-- @view     _workload
-- @summary  What the workload card says of a step, of the model and of the devices, one row for
--           each trace.
-- @requires cards
-- @caveat   Of several cards the first by path counts that states both batch size and sequence
--           length, for the model the first with parameters, for the devices the first with a
--           count. No number is made of two cards.
WITH
    firsts AS (
        SELECT
            trace,
            first(
                {batch_size: batch_size, seq_len: seq_len}
                ORDER BY (batch_size > 0 AND seq_len > 0) IS TRUE DESC, batch_size IS NULL, path
            ) AS step,
            first(
                {phase: phase, params: coalesce(num_params_active, num_params)}
                ORDER BY coalesce(num_params_active, num_params) IS NULL, path
            ) AS model,
            first(total_count ORDER BY path) FILTER (WHERE total_count > 0) AS total_count
        FROM cards
        GROUP BY trace
    )

SELECT
    trace, step.batch_size, step.seq_len, model.phase, model.params AS model_params, total_count
FROM firsts
