-- @view     type_sizes
-- @summary  Types of tensors as PyTorch records them: bytes of an element, and the precision of
--           device_peaks.
-- @column   type VARCHAR dim - | Type as recorded.
-- @column   element_bytes INTEGER value bytes | Bytes of an element.
-- @column   precision VARCHAR value - | bf16, fp16, fp32, fp8 or int8; NULL where device_peaks has
--           none.
-- @source   Input type of PyTorch's profiler, which is the name of the type in C++
SELECT type, element_bytes, precision
FROM (
    VALUES
        ('c10::BFloat16', 2, 'bf16'),
        ('c10::Half', 2, 'fp16'),
        ('float', 4, 'fp32'),
        ('double', 8, NULL),
        ('c10::Float8_e4m3fn', 1, 'fp8'),
        ('c10::Float8_e4m3fnuz', 1, 'fp8'),
        ('c10::Float8_e5m2', 1, 'fp8'),
        ('c10::Float8_e5m2fnuz', 1, 'fp8'),
        ('c10::Float8_e8m0fnu', 1, NULL),
        ('signed char', 1, 'int8'),
        ('unsigned char', 1, 'int8'),
        ('bool', 1, NULL),
        ('short', 2, NULL),
        ('short int', 2, NULL),
        ('int', 4, NULL),
        ('long', 8, NULL),
        ('long int', 8, NULL),
        ('c10::complex<float>', 8, NULL),
        ('c10::complex<double>', 16, NULL)
) AS types (type, element_bytes, precision)
