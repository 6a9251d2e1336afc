-- @metric   flops_per_token_used
-- @version  1
-- @area     speed
-- @summary  Floating-point operations of the model per token: 6 x parameters in training, 2 x in
--           inference.
-- @grain    trace
-- @requires ranks
-- @reads    _model_size
-- @value    flops_per_token_used
-- @null     no card states the parameters of the model: give them with -p model_params=7e9
-- @param    model_params DOUBLE NULL | Parameters of the model; those of the card where it is not
--           given.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   flops_per_token_used DOUBLE value flops_per_token | flops_per_param x model_params.
-- @column   model_params DOUBLE value - | Parameters: those given, else the card's active ones,
--           else all of the card.
-- @column   flops_per_param BIGINT value - | 2 where the card says inference or serving, else 6.
-- @column   phase VARCHAR value - | Phase that the card states.
-- @caveat   Attention over the sequence and recomputation are left out. The tool that set the name
--           takes 7e9 parameters where none are given, and always training.
-- @source   metrics 2.B flops_per_token_used (defect D16)
WITH
    models AS (
        SELECT
            trace, phase, flops_per_param,
            coalesce($model_params, CAST(model_params AS DOUBLE)) AS model_params
        FROM _model_size
    )

SELECT
    trace,
    CASE WHEN model_params > 0 THEN flops_per_param * model_params END AS flops_per_token_used,
    model_params,
    CAST(flops_per_param AS BIGINT) AS flops_per_param,
    phase
FROM models
ORDER BY trace
