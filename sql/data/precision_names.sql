-- @view     precision_names
-- @summary  What names of number formats mean: the precision of device_peaks.
-- @column   name VARCHAR dim - | Name as cards and users write it, in lower case.
-- @column   precision VARCHAR value - | bf16, fp16, tf32, fp32, fp8 or int8.
-- @source   metrics 6: precision of a workload card is free text
SELECT name, precision
FROM (
    VALUES
        ('bf16', 'bf16'),
        ('bfloat16', 'bf16'),
        ('bf16-mixed', 'bf16'),
        ('fp16', 'fp16'),
        ('float16', 'fp16'),
        ('half', 'fp16'),
        ('fp16-mixed', 'fp16'),
        ('tf32', 'tf32'),
        ('xf32', 'tf32'),
        ('fp32', 'fp32'),
        ('float32', 'fp32'),
        ('float', 'fp32'),
        ('fp8', 'fp8'),
        ('float8', 'fp8'),
        ('fp8_e4m3', 'fp8'),
        ('fp8_e5m2', 'fp8'),
        ('mxfp8', 'fp8'),
        ('int8', 'int8')
) AS names (name, precision)
