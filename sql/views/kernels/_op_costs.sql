-- @view     _op_costs
-- @summary  Operators of op_models by their arguments: what one call computes and moves.
-- @materialize session
-- @requires _op_arguments op_models type_sizes
-- @caveat   flops and bytes are NULL where the shapes do not say them: shapes, strides of
--           convolutions or values of flags are not recorded, or do not fit.
WITH
    kinds AS (
        SELECT
            row_number() OVER (ORDER BY a.trace, a.op_name, a.input_dims, a.input_types, a.concrete_inputs)
                AS id,
            a.trace, a.op_name, a.input_dims, a.input_types, a.concrete_inputs,
            m.kind, m.layout, m.first_at, m.second_at, m.third_at, m.stride_at, m.padding_at, m.dilation_at,
            m.flag_at
        FROM _op_arguments AS a
        INNER JOIN op_models AS m ON m.op_name = a.op_name
        WHERE a.input_dims IS NOT NULL
        GROUP BY
            a.trace, a.op_name, a.input_dims, a.input_types, a.concrete_inputs, m.kind, m.layout,
            m.first_at, m.second_at, m.third_at, m.stride_at, m.padding_at, m.dilation_at, m.flag_at
    ),

    places AS (
        SELECT
            id, input_dims, input_types,
            unnest(range(0, CAST(json_array_length(input_dims) AS BIGINT))) AS place
        FROM kinds
        WHERE json_array_length(input_dims) <= 64
    ),

    shapes AS (
        SELECT
            id, place,
            TRY_CAST(json_extract(input_dims, '$[' || place || ']') AS BIGINT[]) AS dims,
            json_extract_string(input_types, '$[' || place || ']') AS type
        FROM places
    ),

    -- Arguments that are tensors. Sizes are doubles: a product of what a file says may be any.
    tensors AS (
        SELECT
            s.id, s.place, CAST(s.dims AS DOUBLE[]) AS dims, t.precision,
            list_product(CAST(s.dims AS DOUBLE[])) AS elements,
            list_product(CAST(s.dims AS DOUBLE[])) * t.element_bytes AS bytes,
            t.element_bytes
        FROM shapes AS s
        INNER JOIN type_sizes AS t ON t.type = s.type
        WHERE list_min(s.dims) >= 0
    ),

    options AS (
        SELECT
            id,
            TRY_CAST(json_extract_string(concrete_inputs, '$[' || stride_at || ']') AS BIGINT[]) AS stride,
            TRY_CAST(json_extract_string(concrete_inputs, '$[' || padding_at || ']') AS BIGINT[])
                AS padding,
            TRY_CAST(json_extract_string(concrete_inputs, '$[' || dilation_at || ']') AS BIGINT[])
                AS dilation,
            json_extract_string(concrete_inputs, '$[' || flag_at || ']') AS flag
        FROM kinds
    ),

    operands AS (
        SELECT
            k.id, k.kind, k.layout,
            a.dims AS a, b.dims AS b, c.dims AS c, v.dims AS v,
            a.elements AS a_elements, b.elements AS b_elements, c.elements AS c_elements,
            a.bytes AS a_bytes, b.bytes AS b_bytes, coalesce(c.bytes, 0) AS c_bytes,
            a.element_bytes, a.precision,
            -- The result of 8-bit matrices is wider: 16-bit floats, 32-bit integers.
            CASE a.precision WHEN 'fp8' THEN 2 WHEN 'int8' THEN 4 ELSE a.element_bytes END AS out_bytes,
            o.stride, o.padding, o.dilation, o.flag
        FROM kinds AS k
        INNER JOIN options AS o ON o.id = k.id
        INNER JOIN tensors AS a ON a.id = k.id AND a.place = k.first_at
        INNER JOIN tensors AS b ON b.id = k.id AND b.place = k.second_at
        LEFT JOIN tensors AS c ON c.id = k.id AND c.place = k.third_at
        LEFT JOIN tensors AS v ON v.id = k.id AND v.place = k.second_at + 1
    ),

    matrices AS (
        SELECT
            id, precision, a_bytes, b_bytes, c_bytes, c_elements, out_bytes,
            CASE WHEN len(a) = 3 AND len(b) = 3 THEN a[1] ELSE 1 END AS batch,
            CASE
                WHEN layout = 'nk' THEN a_elements / a[-1]
                ELSE a[-2]
            END AS m,
            CASE WHEN len(b) = 1 THEN 1 WHEN layout = 'nk' THEN b[1] ELSE b[-1] END AS n,
            a[-1] AS k,
            CASE
                WHEN layout = 'nk' THEN len(b) = 2 AND a[-1] = b[2]
                WHEN len(a) = 3 THEN len(b) = 3 AND a[1] = b[1] AND a[3] = b[2]
                ELSE len(a) = 2 AND len(b) IN (1, 2) AND a[2] = b[1]
            END AS fits
        FROM operands
        WHERE kind = 'gemm'
    ),

    gemms AS (
        SELECT
            id, precision,
            concat('B=', TRY_CAST(batch AS BIGINT), ' M=', TRY_CAST(m AS BIGINT), ' N=', TRY_CAST(n AS BIGINT), ' K=', TRY_CAST(k AS BIGINT)) AS problem,
            batch * (2 * m * n * k + CASE WHEN c_elements > 0 THEN m * n ELSE 0 END) AS flops,
            a_bytes + b_bytes + c_bytes + batch * m * n * out_bytes AS bytes
        FROM matrices
        WHERE fits
    ),

    -- One number holds for all dimensions.
    filters AS (
        SELECT
            id, precision, a, b, a_bytes, b_bytes, c_bytes, c_elements, element_bytes,
            list_transform(
                range(1, len(a) - 1),
                lambda i: floor(
                    (
                        a[i + 2] + 2 * padding[least(i, len(padding))]
                        - dilation[least(i, len(dilation))] * (b[i + 2] - 1) - 1
                    ) / stride[least(i, len(stride))]
                ) + 1
            ) AS spatial
        FROM operands
        WHERE kind = 'conv' AND len(a) BETWEEN 3 AND 5 AND len(b) = len(a)
            AND list_min(stride) > 0 AND b[1] > 0
    ),

    convolved AS (
        SELECT
            id, precision, a, b, a_bytes, b_bytes, c_bytes, c_elements, element_bytes,
            a[1] * b[1] * list_product(spatial) AS out_elements
        FROM filters
        WHERE list_min(spatial) >= 0
    ),

    convolutions AS (
        SELECT
            id, precision,
            concat(
                'x=', CAST(TRY_CAST(a AS BIGINT[]) AS VARCHAR), ' w=', CAST(TRY_CAST(b AS BIGINT[]) AS VARCHAR)
            ) AS problem,
            2 * out_elements * list_product(b[2:])
                + CASE WHEN c_elements > 0 THEN out_elements ELSE 0 END AS flops,
            a_bytes + b_bytes + c_bytes + out_elements * element_bytes AS bytes
        FROM convolved
    ),

    -- Which gradients are wanted: of the input, the weight, the bias. A transposed convolution has
    -- as many operations for each element of its input.
    gradients AS (
        SELECT
            id, precision, a, b, c, a_bytes, b_bytes, c_bytes, c_elements, element_bytes,
            2 * list_product(b[2:]) * CASE WHEN c[2] = b[1] THEN c_elements ELSE a_elements END
                AS flops,
            CAST(flag LIKE '[True%' AS INTEGER) AS of_input,
            CAST(flag LIKE '[%, True, %' AS INTEGER) AS of_weight,
            CAST(flag LIKE '%True]' AS INTEGER) AS of_bias
        FROM operands
        WHERE kind = 'conv_bwd' AND len(a) BETWEEN 3 AND 5 AND len(b) = len(a) AND len(c) = len(a)
            AND flag IS NOT NULL
    ),

    convolution_gradients AS (
        SELECT
            id, precision,
            concat(
                'x=', CAST(TRY_CAST(a AS BIGINT[]) AS VARCHAR), ' w=', CAST(TRY_CAST(b AS BIGINT[]) AS VARCHAR)
            ) AS problem,
            (of_input + of_weight) * flops + of_bias * c_elements AS flops,
            (of_input + of_weight) * (a_bytes + b_bytes + c_bytes)
                + of_bias * (c_elements + c[2]) * element_bytes AS bytes
        FROM gradients
    ),

    heads AS (
        SELECT
            id, kind, precision, element_bytes, a_elements, b_elements,
            list_product(v) AS v_elements,
            a[1] AS batch,
            CASE layout WHEN 'bhsd' THEN a[2] ELSE a[3] END AS heads,
            CASE layout WHEN 'bhsd' THEN a[3] ELSE a[2] END AS queries,
            CASE layout WHEN 'bhsd' THEN b[3] ELSE b[2] END AS keys,
            a[4] AS head_size,
            v[4] AS value_size,
            flag IN ('True', '1', '2') AS is_causal
        FROM operands
        WHERE kind IN ('attention', 'attention_bwd')
            AND len(a) = 4 AND len(b) = 4 AND len(v) = 4 AND a[1] = b[1] AND a[4] = b[4]
            AND flag IS NOT NULL
    ),

    -- Where a causal mask is no square, which pairs it leaves depends on the kernel: one query sees
    -- all keys, of others nothing is said.
    attentions AS (
        SELECT
            id, precision,
            concat(
                'B=', TRY_CAST(batch AS BIGINT), ' H=', TRY_CAST(heads AS BIGINT), ' Sq=', TRY_CAST(queries AS BIGINT), ' Sk=', TRY_CAST(keys AS BIGINT),
                ' D=', TRY_CAST(head_size AS BIGINT), CASE WHEN is_causal THEN ' causal' ELSE '' END
            ) AS problem,
            2 * batch * heads * queries * keys
                * CASE kind
                    WHEN 'attention' THEN head_size + value_size
                    ELSE 3 * head_size + 2 * value_size
                END
                * CASE
                    WHEN NOT is_causal OR queries = 1 THEN 1
                    WHEN queries = keys THEN 0.5
                END AS flops,
            element_bytes
                * CASE kind WHEN 'attention' THEN 1 ELSE 2 END
                * (a_elements + b_elements + v_elements)
                + element_bytes * batch * heads * queries * value_size AS bytes
        FROM heads
    ),

    copies AS (
        SELECT id, NULL AS precision, concat('elements=', TRY_CAST(a_elements AS BIGINT)) AS problem,
            CAST(0 AS DOUBLE) AS flops, a_bytes + b_bytes AS bytes
        FROM operands
        WHERE kind = 'copy'
    ),

    -- The result has as many elements as the largest argument, and its type.
    pointwise AS (
        SELECT
            t.id, NULL AS precision, concat('elements=', TRY_CAST(max(t.elements) AS BIGINT)) AS problem,
            max(t.elements) AS flops,
            sum(t.bytes) + max(t.bytes) AS bytes
        FROM tensors AS t
        INNER JOIN kinds AS k ON k.id = t.id AND k.kind = 'pointwise'
        GROUP BY t.id
    ),

    costs AS (
        SELECT id, precision, problem, flops, bytes FROM gemms
        UNION ALL
        SELECT id, precision, problem, flops, bytes FROM convolutions
        UNION ALL
        SELECT id, precision, problem, flops, bytes FROM convolution_gradients
        UNION ALL
        SELECT id, precision, problem, flops, bytes FROM attentions
        UNION ALL
        SELECT id, precision, problem, flops, bytes FROM copies
        UNION ALL
        SELECT id, precision, problem, flops, bytes FROM pointwise
    )

SELECT
    k.trace, k.op_name, k.kind, k.input_dims, k.input_types, k.concrete_inputs,
    c.precision, c.problem,
    CASE WHEN isfinite(c.flops) THEN c.flops END AS flops,
    CASE WHEN isfinite(c.bytes) THEN c.bytes END AS bytes
FROM kinds AS k
LEFT JOIN costs AS c ON c.id = k.id
