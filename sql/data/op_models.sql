-- @view     op_models
-- @summary  Operators whose floating-point operations and bytes follow from their arguments: what
--           they compute, and which argument is what.
-- @column   op_name VARCHAR dim - | Operator as recorded.
-- @column   kind VARCHAR value - | gemm, conv, conv_bwd, attention, attention_bwd, pointwise (each
--           element of the result from one of each tensor), or copy (of the second tensor into the
--           first).
-- @column   layout VARCHAR value - | Of gemm: kn, where the second matrix is K x N, or nk. Of
--           attention: bhsd, where heads stand before the sequence, or bshd.
-- @column   first_at INTEGER value - | Place from 0 of the first matrix, the input, or the query.
-- @column   second_at INTEGER value - | Of the second matrix, the weight, or the key; the value of
--           attention is behind it.
-- @column   third_at INTEGER value - | Of the bias, or of the gradient of the output of conv_bwd.
-- @column   stride_at INTEGER value - | Of the stride of a convolution.
-- @column   padding_at INTEGER value - | Of its padding.
-- @column   dilation_at INTEGER value - | Of its dilation.
-- @column   flag_at INTEGER value - | Of what says that attention is causal, or which gradients
--           conv_bwd gives.
-- @source   signatures of native_functions.yaml of PyTorch 2.1 to 2.9, and of flash-attn 2.7, aiter
--           and vLLM 0.11
SELECT
    op_name, kind, layout, first_at, second_at, third_at, stride_at, padding_at, dilation_at, flag_at
FROM (
    VALUES
        ('aten::mm', 'gemm', 'kn', 0, 1, NULL, NULL, NULL, NULL, NULL),
        ('aten::mv', 'gemm', 'kn', 0, 1, NULL, NULL, NULL, NULL, NULL),
        ('aten::bmm', 'gemm', 'kn', 0, 1, NULL, NULL, NULL, NULL, NULL),
        ('aten::addmm', 'gemm', 'kn', 1, 2, 0, NULL, NULL, NULL, NULL),
        ('aten::addmm_', 'gemm', 'kn', 1, 2, 0, NULL, NULL, NULL, NULL),
        ('aten::addmv', 'gemm', 'kn', 1, 2, 0, NULL, NULL, NULL, NULL),
        ('aten::addmv_', 'gemm', 'kn', 1, 2, 0, NULL, NULL, NULL, NULL),
        ('aten::_addmm_activation', 'gemm', 'kn', 1, 2, 0, NULL, NULL, NULL, NULL),
        ('aten::baddbmm', 'gemm', 'kn', 1, 2, 0, NULL, NULL, NULL, NULL),
        ('aten::baddbmm_', 'gemm', 'kn', 1, 2, 0, NULL, NULL, NULL, NULL),
        ('aten::_scaled_mm', 'gemm', 'kn', 0, 1, NULL, NULL, NULL, NULL, NULL),
        ('aten::_int_mm', 'gemm', 'kn', 0, 1, NULL, NULL, NULL, NULL, NULL),
        ('aten::linear', 'gemm', 'nk', 0, 1, 2, NULL, NULL, NULL, NULL),
        ('aten::mkldnn_linear', 'gemm', 'nk', 0, 1, 2, NULL, NULL, NULL, NULL),
        ('vllm::rocm_unquantized_gemm', 'gemm', 'nk', 0, 1, 2, NULL, NULL, NULL, NULL),
        ('aten::cudnn_convolution', 'conv', NULL, 0, 1, NULL, 3, 2, 4, NULL),
        ('aten::cudnn_convolution_relu', 'conv', NULL, 0, 1, 2, 3, 4, 5, NULL),
        ('aten::miopen_convolution', 'conv', NULL, 0, 1, 2, 4, 3, 5, NULL),
        ('aten::miopen_depthwise_convolution', 'conv', NULL, 0, 1, 2, 4, 3, 5, NULL),
        ('aten::mkldnn_convolution', 'conv', NULL, 0, 1, 2, 4, 3, 5, NULL),
        ('aten::_conv_depthwise2d', 'conv', NULL, 0, 1, 3, 4, 5, 6, NULL),
        ('aten::conv_depthwise3d', 'conv', NULL, 0, 1, 3, 4, 5, 6, NULL),
        ('aten::slow_conv_dilated2d', 'conv', NULL, 0, 1, 3, 4, 5, 6, NULL),
        ('aten::slow_conv_dilated3d', 'conv', NULL, 0, 1, 3, 4, 5, 6, NULL),
        ('aten::convolution_backward', 'conv_bwd', NULL, 1, 2, 0, NULL, NULL, NULL, 10),
        ('aten::_flash_attention_forward', 'attention', 'bshd', 0, 1, NULL, NULL, NULL, NULL, 8),
        ('aten::_efficient_attention_forward', 'attention', 'bshd', 0, 1, NULL, NULL, NULL, NULL, 9),
        ('aten::_cudnn_attention_forward', 'attention', 'bhsd', 0, 1, NULL, NULL, NULL, NULL, 10),
        ('aten::_scaled_dot_product_flash_attention', 'attention', 'bhsd', 0, 1, NULL, NULL, NULL, NULL, 4),
        ('aten::_scaled_dot_product_efficient_attention', 'attention', 'bhsd', 0, 1, NULL, NULL, NULL, NULL, 6),
        ('aten::_scaled_dot_product_cudnn_attention', 'attention', 'bhsd', 0, 1, NULL, NULL, NULL, NULL, 6),
        ('flash_attn::_flash_attn_forward', 'attention', 'bshd', 0, 1, NULL, NULL, NULL, NULL, 5),
        ('FlashAttnFunc', 'attention', 'bshd', 0, 1, NULL, NULL, NULL, NULL, 5),
        ('aiter::_flash_attn_forward', 'attention', 'bshd', 0, 1, NULL, NULL, NULL, NULL, 5),
        ('aten::_flash_attention_backward', 'attention_bwd', 'bshd', 1, 2, NULL, NULL, NULL, NULL, 11),
        ('aten::_efficient_attention_backward', 'attention_bwd', 'bshd', 1, 2, NULL, NULL, NULL, NULL, 14),
        ('aten::_scaled_dot_product_flash_attention_backward', 'attention_bwd', 'bhsd', 1, 2, NULL, NULL, NULL, NULL, 11),
        ('aten::_scaled_dot_product_efficient_attention_backward', 'attention_bwd', 'bhsd', 1, 2, NULL, NULL, NULL, NULL, 11),
        ('aten::_scaled_dot_product_cudnn_attention_backward', 'attention_bwd', 'bhsd', 1, 2, NULL, NULL, NULL, NULL, 14),
        ('flash_attn::_flash_attn_backward', 'attention_bwd', 'bshd', 1, 2, NULL, NULL, NULL, NULL, 11),
        ('aten::copy_', 'copy', NULL, 0, 1, NULL, NULL, NULL, NULL, NULL),
        ('aten::add', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::add_', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::sub', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::sub_', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::mul', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::mul_', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::div', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::div_', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::neg', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::exp', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::pow', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::sqrt', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::rsqrt', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::reciprocal', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::cos', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::sin', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::tanh', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::sigmoid', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::gelu', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::silu', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::silu_', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::relu', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::relu_', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::clamp_min', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::clamp_min_', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::gelu_backward', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::silu_backward', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::tanh_backward', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::sigmoid_backward', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('aten::threshold_backward', 'pointwise', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
) AS models (
    op_name, kind, layout, first_at, second_at, third_at, stride_at, padding_at, dilation_at, flag_at
)
