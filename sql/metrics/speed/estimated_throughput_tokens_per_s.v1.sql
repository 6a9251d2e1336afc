-- @metric   estimated_throughput_tokens_per_s
-- @version  1
-- @area     speed
-- @summary  Tokens per second that the floating-point operations of the trace are enough for.
-- @grain    trace
-- @profilers xla
-- @requires device_events
-- @reads    _model_size _trace_flops _device_counts
-- @value    estimated_throughput_tokens_per_s
-- @check    (SELECT count(*) FROM _device_counts WHERE flops_events > 0) > 0
--           | no device event states floating-point operations (XLA traces of TPUs do)
-- @null     no card states the parameters of the model: give them with -p model_params=7e9
-- @param    model_params DOUBLE NULL | Parameters of the model; those of the card where it is not
--           given.
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   estimated_throughput_tokens_per_s DOUBLE value tokens_per_s higher |
--           estimated_total_tokens / wall_time_s.
-- @column   estimated_total_tokens DOUBLE value tokens | total_model_flops / flops_per_token_used.
-- @column   total_model_flops DOUBLE value flops | Sum over the device events of all ranks.
-- @column   flops_per_token_used DOUBLE value flops_per_token | 6 x parameters in training, 2 x in
--           inference.
-- @column   wall_time_s DOUBLE value s | Largest window over ranks.
-- @caveat   An estimate from operations that the compiler counted; throughput_tokens is the
--           measured one. The tool that set the name counts operations several times, takes 7e9
--           parameters where none are given, and a span with the host in it.
-- @source   metrics 2.B estimated_throughput_tokens_per_s (defects D01, D15, D16)
WITH
    models AS (
        SELECT
            trace, flops_per_param,
            coalesce($model_params, CAST(model_params AS DOUBLE)) AS model_params
        FROM _model_size
    ),

    tokens AS (
        SELECT
            t.trace,
            t.flops AS total_model_flops,
            CASE WHEN m.model_params > 0 THEN m.flops_per_param * m.model_params END
                AS flops_per_token_used,
            t.wall_time_s
        FROM _trace_flops AS t
        INNER JOIN models AS m ON m.trace = t.trace
    )

SELECT
    trace,
    total_model_flops / flops_per_token_used / nullif(wall_time_s, 0)
        AS estimated_throughput_tokens_per_s,
    total_model_flops / flops_per_token_used AS estimated_total_tokens,
    total_model_flops,
    flops_per_token_used,
    wall_time_s
FROM tokens
ORDER BY trace
