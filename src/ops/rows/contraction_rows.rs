//! Rows of the operator table: products over dimensions that operands name, and attention.

use super::Row;
use super::vocabulary::*;

/// No kernel computes them.
const OUTSIDE: &str = "kernels of groups compute no products of matrices: the interpreter runs it";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::_native_multi_head_attention",
        shape: Has(&[sized(S::Each(&[S::Like, S::HeadWeights]), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&[
            "2x3x4 2x3x4 2x3x4 int:4 int:2 12x4 12 4x4 4 none yes yes none",
            "2x3x4 2x3x4 2x3x4 int:4 int:2 12x4 12 4x4 4 none yes no none",
        ])),
    },
    Row {
        kind: "aten::_scaled_dot_product_attention_math",
        shape: Has(&[sized(S::Each(&[S::Attended, S::AttentionWeights]), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::_transformer_encoder_layer_fwd",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&[
            "2x3x4 int:4 int:2 12x4 12 4x4 4 no no float:0.01 4 4 4 4 5x4 5 4x5 4 none none",
        ])),
    },
    Row {
        kind: "aten::bilinear",
        shape: Has(&[sized(S::Bilinear, E::Common).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", r#"
                grad input1 = einsum("...o,oij,...j->...i", [g, weight, input2])
                grad input2 = einsum("...o,oij,...i->...j", [g, weight, input1])
                rows = reshape(g, [-1, size(weight)[0]])
                grad weight = einsum("no,ni,nj->oij", [rows, reshape(input1, [-1, size(weight)[1]]), reshape(input2, [-1, size(weight)[2]])])
                grad bias = sum(rows, [0])
            "#)]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3 4x2 5x3x2 5", "2x4x3 2x4x2 5x3x2 none"])),
    },
    Row {
        kind: "aten::chain_matmul",
        shape: Has(&[sized(S::Chained, E::Common)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::corrcoef",
        shape: Has(&[sized(S::Correlated, E::Real)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2 halves", "
                rows = AD_variables(self)
                n = size(rows)[0]
                count = size(rows)[1]
                apart = rows - sum(rows, [1], True) / count
                covered = matmul(apart, t(apart)) / prim::max(count - 1, 0)
                roots = sqrt(diagonal(covered))
                outer = unsqueeze(roots, 1)
                inner = unsqueeze(roots, 0)
                once = covered / outer
                twice = once / inner
                share = masked_fill(reshape(g, [n, n]), __and__(twice > -1, twice < 1) == 0, 0)
                of_inner = sum(-share * (once / inner / inner), [0])
                halfway = share / inner
                of_outer = sum(-halfway * (covered / outer / outer), [1])
                of_diagonal = diag_embed((of_inner + of_outer) / (roots * 2))
                grad self = reshape(AD_covariance_in_order(halfway / outer + of_diagonal, rows, 1), size(self))
            "),
            ("+2", "
                rows = AD_variables(self)
                n = size(rows)[0]
                covered = reshape(cov(self), [n, n])
                variances = diagonal(covered)
                roots = sqrt(variances)
                share = reshape(g, [n, n])
                scaled = share / unsqueeze(roots, 1) / unsqueeze(roots, 0)
                both = share * (covered / unsqueeze(roots, 1) / unsqueeze(roots, 0))
                of_variances = (sum(both, [0]) + sum(both, [1])) / (variances * 2)
                all = new_ones(rows, [size(rows)[1]])
                grad self = reshape(AD_covariance_backward(scaled - diag_embed(of_variances), rows, all, sum(all) - 1), size(self))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["3x5", "1x4"]).shaped(&["3x4"])),
    },
    Row {
        kind: "aten::cov",
        shape: Has(&[sized(S::Correlated, E::Real)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // The product of all factors but one, rounded after each operator; the sums of rows
            // exceed 65504.
            ("+2 halves", "
                rows = AD_variables(self)
                frequencies = AD_observation_weights(fweights, rows)
                shares = AD_observation_weights(aweights, rows)
                all = frequencies * shares
                is_plain = if __is__(fweights, None) { -> __is__(aweights, None) } else { -> False }
                norm = clamp_min(sum(all) - AD_lost_weight(frequencies, shares, all, correction, __isnot__(aweights, None)), 0)
                share = reshape(g, [size(rows)[0], size(rows)[0]])
                of_norm = (frequencies - AD_lost_weight_slope(frequencies, shares, all, correction)) * (sum(g * result) / norm)
                apart = rows - sum(rows * all, [1], True) / sum(all)
                of_pairs = sum(apart * matmul(share, apart), [0]) * frequencies / norm
                given = if __is__(aweights, None) { -> None } else {
                    -> reshape(of_pairs - of_norm, size(prim::unchecked_unwrap_optional(aweights)))
                }
                found = if is_plain { -> AD_covariance_in_order(share, rows, correction) } else {
                    -> AD_covariance_backward(share, rows, all, norm)
                }
                grad self = reshape(found, size(self))
                grad aweights = prim::unchecked_unwrap_optional(given)
            "),
            ("+2", "
                rows = AD_variables(self)
                frequencies = AD_observation_weights(fweights, rows)
                shares = AD_observation_weights(aweights, rows)
                all = frequencies * shares
                is_shared = __isnot__(aweights, None)
                norm = clamp_min(sum(all) - AD_lost_weight(frequencies, shares, all, correction, is_shared), 0)
                share = reshape(g, [size(rows)[0], size(rows)[0]])
                apart = rows - sum(rows * all, [1], True) / sum(all)
                of_norm = (frequencies - AD_lost_weight_slope(frequencies, shares, all, correction)) * (sum(g * result) / norm)
                of_pairs = sum(apart * matmul(share, apart), [0]) * frequencies / norm
                given = if __is__(aweights, None) { -> None } else {
                    -> reshape(of_pairs - of_norm, size(prim::unchecked_unwrap_optional(aweights)))
                }
                grad self = reshape(AD_covariance_backward(share, rows, all, norm), size(self))
                grad aweights = prim::unchecked_unwrap_optional(given)
            "),
            ("def AD_observation_weights(weights: Tensor?, rows)  2", "
                -> if __is__(weights, None) { -> new_ones(rows, [size(rows)[1]]) } else {
                    -> reshape(type_as(prim::unchecked_unwrap_optional(weights), rows), [-1])
                }
            "),
            // The correction of the sum of weights, and its derivative with respect to each weight
            // that is no frequency.
            ("def AD_lost_weight(frequencies, shares, all, correction: int, is_shared: bool)  2", "
                -> if is_shared { -> sum(all * shares) / sum(all) * correction } else { -> full_like(sum(all), correction) }
            "),
            ("def AD_lost_weight_slope(frequencies, shares, all, correction: int)  2", "
                total = sum(all)
                -> (frequencies * shares * 2 / total - frequencies * sum(all * shares) / (total * total)) * correction
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "3x5 int:1 none none",
            "2x4 int:0 none doubles:0.5,1.5,0.25,2.0",
            "3x4 int:1 longs:1,2,1,3 doubles:0.5,1.5,0.25,2.0",
            "4 int:1 longs:1,2,1,3 none",
            "1x4 int:2 none doubles:0.5,1.5,0.75,2.0",
        ]).shaped(&["3x4 int:1 none none"])),
    },
    Row {
        kind: "aten::einsum",
        shape: Has(&[sized(S::Einsum, E::Common).with("equation")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3 +2", r#"
                parts = split(split(equation, "->", -1)[0], ",", -1)
                grad tensors = for k < len(tensors) with all = slice([g], 0, 0, 1) {
                    operands = for j < len(tensors) with others = [g] {
                        other = if j == k { -> ones_like(tensors[j]) } else { -> tensors[j] }
                        -> others + [other]
                    }
                    -> all + [AD_einsum_backward(equation, parts[k], operands, tensors[k])]
                }
            "#),
            // The letters of the result of `einsum`: by default those that occur once.
            ("def AD_einsum_result(equation: str)  1.3 2", r#"
                sides = split(equation, "->", -1)
                -> if len(sides) > 1 { -> sides[1] } else {
                    first = if len(split(equation, "...", -1)) > 1 { -> "..." } else { -> "" }
                    -> for i < 52 with all = first {
                        letter = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[i]
                        -> if len(split(equation, letter, -1)) == 2 { -> all + letter } else { -> all }
                    }
                }
            "#),
            ("def AD_distinct_letters(part: str)  1.3 2", r#"
                -> for i < len(part) with all = "" {
                    is_new = if part[i] == "." { -> True } else { -> len(split(all, part[i], -1)) == 1 }
                    -> if is_new { -> all + part[i] } else { -> all }
                }
            "#),
            // Multiplying by ones of the operand's shape broadcasts the summed gradient to its
            // sizes. Elements outside of the diagonal get 0. The result is a copy, since operands
            // may share memory.
            ("def AD_einsum_backward(equation: str, part: str, operands: Tensor[], self)  1.3 2", r#"
                letters = AD_distinct_letters(part)
                found = einsum(AD_einsum_result(equation) + "," + split(equation, "->", -1)[0] + "->" + letters, operands)
                -> if letters == part { -> clone(_grad_sum_to_size(found, size(self))) } else {
                    places = einsum(part + "->" + letters, [AD_places(self)])
                    -> AD_put_back(_grad_sum_to_size(found, size(places)), places, self)
                }
            "#),
        ]),
        guard: No(STAYS),
        accuracy: Has(sums()),
        semantics: Has(DECLARED.alias(A::MayReturn(1))),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "text:\"ab,cb->ac\" list:double:2x3,double:4x3 none",
            "text:\"ba,bc\" list:double:2x3,double:2x4 none",
            "text:\"aB,a,->B\" list:double:2x3,double:2,double: none",
            "text:\"ii->i\" list:double:3x3 none",
            "text:\"iij,jk->k\" list:double:3x3x2,double:2x4 none",
            "text:\"...ij,...jk->...ik\" list:double:2x3x4,double:5x2x4x3 none",
            "text:\"i...,i...\" list:double:2x3,double:2x1 none",
            "text:\"ab,bc->c\" list:double:2x1,double:3x4 none",
            "text:\"ab,cb->ac\" list:double:2x3,double:4x3",
            "text:\"ii,i\" list:double:3x3,double:3",
        ]).shaped(&[
            "text:\"ij,jk->ik\" list:2x3,3x4 none",
            "text:\"bij,bjk\" list:2x3x4,2x4x5 none",
            "text:\"...ij->...ji\" list:2x3x4 none",
            "text:\"ii->i\" list:3x3 none",
        ])),
    },
    Row {
        kind: "aten::kron",
        shape: Has(&[sized(S::Kronecker, E::Promoted)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // Each dimension of the product combines one of both operands; that of the second one
            // is the inner one.
            ("+2", "
                a = AD_leading_ones(self, dim(g))
                b = AD_leading_ones(other, dim(g))
                both, of_self, of_other = for i < dim(g) with both = slice([0], 0, 0, 1), of_self = slice([0], 0, 0, 1), of_other = slice([0], 0, 0, 1) {
                    -> both + [a[i], b[i]], of_self + [a[i], 1], of_other + [1, b[i]]
                }
                apart = reshape(g, both)
                grad self = reshape(_grad_sum_to_size(apart * reshape(other, of_other), of_self), size(self))
                grad other = reshape(_grad_sum_to_size(apart * reshape(self, of_self), of_other), size(other))
            "),
            // Sizes of so many dimensions, padded with ones at the front.
            ("def AD_leading_ones(self, rank: int)  2", "
                own = size(self)
                missing = rank - dim(self)
                -> for i < rank with sizes = slice([0], 0, 0, 1) {
                    next = if i < missing { -> 1 } else { -> own[i - missing] }
                    -> sizes + [next]
                }
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x3 3x2", "3 2x1x2"])),
    },
    Row {
        kind: "aten::linalg_multi_dot",
        shape: Has(&[sized(S::Chained, E::Common)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::scaled_dot_product_attention",
        shape: Has(&[sized(S::Attended, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2", "
                keep keys = AD_heads(key, query, enable_gqa)
                keep values = AD_heads(value, query, enable_gqa)
                keep factor = AD_attention_scale(query, scale)
                keep weights = _safe_softmax(AD_masked_scores(matmul(query, transpose(keys, -2, -1)) * factor, attn_mask, is_causal), -1)
                keep noise = AD_noise(weights, dropout_p)
                result := matmul(weights * noise, values)
                of_weights = matmul(g, transpose(values, -2, -1)) * noise
                each = weights * (of_weights - sum(of_weights * weights, [-1], True))
                grad query = _grad_sum_to_size(matmul(each, keys) * factor, size(query))
                grad key = _grad_sum_to_size(AD_to_heads(matmul(transpose(each, -2, -1), query) * factor, key, enable_gqa), size(key))
                grad value = _grad_sum_to_size(AD_to_heads(matmul(transpose(weights * noise, -2, -1), g), value, enable_gqa), size(value))
                grad attn_mask = AD_to_mask(each, attn_mask)
            "),
            // Repeats heads of keys and values that several query heads share, and the inverse.
            ("def AD_heads(shared, query, grouped: bool)  2", "
                -> if grouped { -> repeat_interleave(shared, floordiv(size(query)[-3], size(shared)[-3]), -3) } else { -> shared }
            "),
            ("def AD_to_heads(grad, shared, grouped: bool)  2", "
                -> if grouped { -> sum(unflatten(grad, -3, [size(shared)[-3], -1]), [-3]) } else { -> grad }
            "),
            ("def AD_attention_scale(query, scale: float?)  2", "
                -> if __is__(scale, None) { -> 1. / sqrt(size(query)[-1]) } else { -> prim::unchecked_cast(scale) }
            "),
            ("def AD_masked_scores(scores, mask: Tensor?, is_causal: bool)  2", "
                -> if is_causal { -> masked_fill(scores, tril(ones_like(scores)) == 0, -1e999) } else if __is__(mask, None) { -> scores } else {
                    seen = prim::unchecked_unwrap_optional(mask)
                    -> if prim::dtype(seen) == 11 { -> masked_fill(scores, seen == 0, -1e999) } else { -> scores + seen }
                }
            "),
            ("def AD_to_mask(grad, mask: Tensor?)  2", "
                -> _grad_sum_to_size(grad, size(prim::unchecked_unwrap_optional(mask)))
            "),
            // Dropout of ones gives the factors of all elements.
            ("def AD_noise(weights, p: float)  2", "
                -> if p > 0. { -> dropout(ones_like(weights), p, True) } else { -> ones([], dtype=prim::dtype(weights)) }
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "2x4x3 2x5x3 2x5x2 none float:0. no none no",
            "2x4x3 2x5x3 2x5x2 none float:0. yes float:0.5 no",
            "2x2x4x3 2x2x5x3 2x2x5x2 4x5 float:0. no none no",
            "2x4x3 2x5x3 2x5x2 bool:4x5 float:0. no none no",
            "2x4x2x3 2x2x3x3 2x2x3x2 none float:0. no none yes",
        ])),
    },
    Row {
        kind: "aten::tensordot",
        shape: Has(&[sized(S::Contracted, E::Common)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3 +2", "
                grad self = AD_tensordot_backward(g, self, other, dims_self, dims_other, dim(self) - len(dims_self))
                grad other = AD_tensordot_backward(g, other, self, dims_other, dims_self, 0)
            "),
            // Permutes kept dimensions to the front, summed ones to the end.
            ("def AD_in_groups(rank: int, summed: int[])  1.3 2", "
                behind = for i < len(summed) with behind = slice([0], 0, 0, 1) {
                    -> behind + [if summed[i] < 0 { -> summed[i] + rank } else { -> summed[i] }]
                }
                front = for i < rank with front = slice([0], 0, 0, 1) {
                    often = for j < len(behind) with often = 0 { -> if behind[j] == i { -> often + 1 } else { -> often } }
                    -> if often == 0 { -> front + [i] } else { -> front }
                }
                -> front + behind
            "),
            ("def AD_back_in_order(order: int[])  1.3 2", "
                -> for i < len(order) with back = mul([0], len(order)) {
                    at = _set_item(back, order[i], i)
                    -> back
                }
            "),
            // Dimensions from `from` on, which the other operand contributed, are summed in the
            // gradient. A dimension of size 1 was broadcast.
            ("def AD_tensordot_backward(grad, self, other, dims_self: int[], dims_other: int[], from: int)  1.3 2", "
                order = AD_in_groups(dim(self), dims_self)
                turned = permute(other, AD_in_groups(dim(other), dims_other))
                left = dim(other) - len(dims_other)
                summed = for i < left with all = slice([0], 0, 0, 1) { -> all + [from + i] }
                own = permute(self, order)
                found = tensordot(grad, turned, summed, prim::rangelist(left)) + zeros_like(own)
                -> permute(_grad_sum_to_size(found, size(own)), AD_back_in_order(order))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "2x3x4 4x3x5 ints:[1,2] ints:[1,0]",
            "2x3 2x4 ints:[0] ints:[-2]",
            "2x3 4 ints:[] ints:[]",
            "2x3 1x4 ints:[1] ints:[0]",
            "2x1 3x4 ints:[1] ints:[0]",
        ])),
    },
];
