//! Rows of the operator table: layers whose norms are over groups, and gradients of norms.

use super::Row;
use super::vocabulary::*;
use crate::types::DType;

/// No kernel computes them.
const OUTSIDE: &str = "no recipe describes its rows: the interpreter runs it";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::_batch_norm_impl_index",
        shape: Has(&[sized(S::Each(&[S::Like, S::ChannelStatistics, S::ChannelStatistics, S::Nothing]), E::Each(&[E::Same, E::Statistics, E::Statistics, E::Fixed(DType::Byte)]))]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3", "
                mask = [True, __isnot__(weight, None), __isnot__(bias, None)]
                dinput, dweight, dbias = _batch_norm_impl_index_backward(result3, input, g0, weight, running_mean, running_var, result1, result2, training, eps, mask)
                grad input = dinput
                grad weight = dweight
                grad bias = dbias
            "),
            ("+2", "
                mask = [True, __isnot__(weight, None), __isnot__(bias, None)]
                dinput, dweight, dbias = _batch_norm_impl_index_backward(result4, input, g0, weight, running_mean, running_var, result1, result2, training, eps, mask, result3)
                grad input = dinput
                grad weight = dweight
                grad bias = dbias
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.alias(A::BatchNorm { training_operand: 5 })),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "4x3 3 3 3 3 yes float:0.1 float:0.01 no",
            "4x3x2x2 3 none 3 3 no float:0.1 float:0.01 no",
        ])),
    },
    Row {
        kind: "aten::_batch_norm_impl_index_backward",
        shape: Has(&[sized(S::Each(&[S::Of("input"), S::Channels("input"), S::Channels("input")]), E::Of("input"))]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                center, scale = AD_used_statistics(running_mean, running_var, save_mean, save_var_transform, train, eps)
                of_grad, of_input, of_weight = AD_batch_norm_twice(g0, g1, g2, grad_output, input, weight, center, scale, train)
                grad grad_output = of_grad
                grad input = of_input
                grad weight = of_weight
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::_log_softmax_backward_data",
        shape: Has(&[sized(S::Of("grad_output"), E::OfInput)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2 halves", "
                grad grad_output = g - sum(g * exp(output), [dim], True)
                grad output = -sum(grad_output, [dim], True) * exp(output) * g
            "),
            ("+1.3 +2", "
                grad grad_output = g - sum(g * exp(output), [dim], True)
                grad output = -g * exp(output) * sum(grad_output, [dim], True)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3 4x3 int:1 int:7", "4x3 4x3 int:0 4x3"])),
    },
    Row {
        kind: "aten::_native_batch_norm_legit",
        shape: Has(&[sized(S::Each(&[S::Like, S::ChannelStatistics, S::ChannelStatistics]), E::Each(&[E::Same, E::Statistics, E::Statistics]))]),
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
        kind: "aten::_native_batch_norm_legit_no_training",
        shape: Has(&[sized(S::Each(&[S::Like, S::ChannelStatistics, S::ChannelStatistics]), E::Each(&[E::Same, E::Statistics, E::Statistics]))]),
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
        kind: "aten::_prelu_kernel",
        shape: Has(&[sized(S::Broadcast, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "
                keep self_size = _size_if_not_equal(size(self), size(result))
                keep weight_size = _size_if_not_equal(size(weight), size(result))
                grad self = _grad_sum_to_size(where(self > 0, g, g * weight), self_size)
                grad weight = _grad_sum_to_size(masked_fill(g * self, self >= 0, 0), weight_size)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3x2 3x1", "4x3 scalar"])),
    },
    Row {
        kind: "aten::_softmax_backward_data",
        shape: Has(&[sized(S::Of("grad_output"), E::OfInput)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2 halves", "
                grad grad_output = _softmax_backward_data(g, output, dim, prim::dtype(grad_output))
                grad output = grad_output * g - sum(output * grad_output, [dim], True) * g - grad_output * sum(output * g, [dim], True)
            "),
            ("+1.3 +2", "
                grad grad_output = (g - sum(g * output, [dim], True)) * output
                grad output = g * (grad_output - sum(grad_output * output, [dim], True)) - grad_output * sum(g * output, [dim], True)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3 4x3 int:1 int:7", "4x3 4x3 int:0 4x3"])),
    },
    Row {
        kind: "aten::_weight_norm",
        shape: Has(&[sized(S::Broadcast, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2 halves", "
                dims = for i < dim(v) with all = slice([0], 0, 0, 1) { -> if i == dim { -> all } else { -> all + [i] } }
                wide = AD_float(v)
                square = sum(wide * wide, dims, True)
                along = sum(AD_float(g) * wide, dims, True)
                factor = sum(AD_float(result) * wide, dims, True) / square
                grad v = type_as(AD_float(g) * factor - wide * (factor * along / square), v)
                grad g = type_as(along / sqrt(square), v)
            "),
            // The factor of a weight, the given norm over its own, is also the ratio of the result
            // to it.
            ("+1.3 +2", "
                dims = for i < dim(v) with all = slice([0], 0, 0, 1) { -> if i == dim { -> all } else { -> all + [i] } }
                square = sum(v * v, dims, True)
                along = sum(g * v, dims, True)
                factor = sum(result * v, dims, True) / square
                grad v = g * factor - v * (factor * along / square)
                grad g = along / sqrt(square)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3x2 4x1x1 int:0", "4x3 1x3 int:1"])),
    },
    Row {
        kind: "aten::glu",
        shape: Has(&[sized(S::Halved, E::Same).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2 halves", "
                half = floordiv(size(self)[dim], 2)
                first = AD_float(narrow(self, dim, 0, half))
                gate = sigmoid(AD_float(narrow(self, dim, half, half)))
                share = AD_float(g)
                grad self = type_as(cat([share * gate, (1 - gate) * gate * share * first], dim), self)
            "),
            ("+1.3 +2", "
                half = floordiv(size(self)[dim], 2)
                first = narrow(self, dim, 0, half)
                gate = sigmoid(narrow(self, dim, half, half))
                grad self = cat([g * gate, g * first * gate * (1 - gate)], dim)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::group_norm",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // Eager mode keeps statistics in halves, and its gradient kernel reads them from there.
            ("+2 halves", "
                count = size(input)[0]
                channels = size(input)[1]
                image = AD_image_size(input)
                pixels = for i < len(image) with all = 1 { -> all * image[i] }
                same, mean, rstd = native_group_norm(input, weight, bias, count, channels, pixels, num_groups, eps)
                mask = [True, __isnot__(weight, None), __isnot__(bias, None)]
                dinput, dweight, dbias = native_group_norm_backward(g, input, mean, rstd, weight, count, channels, pixels, num_groups, mask)
                grad input = dinput
                grad weight = dweight
                grad bias = dbias
            "),
            ("+1.3 +2", "
                groups = [size(input)[0], num_groups, -1]
                normal, rstd = AD_normal(reshape(input, groups), eps)
                grad input = reshape(AD_normal_backward(reshape(AD_channels(weight, g), groups), normal, rstd), size(input))
                grad weight = AD_sum_to_channels(g * reshape(normal, size(input)))
                grad bias = AD_sum_to_channels(g)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(sums().adding(3).subtracting().squaring()),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "2x4x3 int:2 4 4 float:0.01 no",
            "2x4x3x2 int:1 none none float:0.01 no",
            "2x4 int:2 4 none float:0.01 no",
        ])),
    },
    Row {
        kind: "aten::instance_norm",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // Eager mode runs a batch norm over the channels of all images.
            ("+2 halves", "
                count = size(input)[0]
                channels = size(input)[1]
                rows = reshape(input, [1, count * channels] + AD_image_size(input))
                dims = AD_all_but_channels(dim(input))
                shape = AD_channel_shape(dim(input))
                like = if __is__(weight, None) { -> input } else { -> prim::unchecked_unwrap_optional(weight) }
                factors = if __is__(weight, None) { -> None } else { -> repeat(prim::unchecked_unwrap_optional(weight), [count]) }
                means = if use_input_stats { -> None } else { -> repeat(prim::unchecked_unwrap_optional(running_mean), [count]) }
                variances = if use_input_stats { -> None } else { -> repeat(prim::unchecked_unwrap_optional(running_var), [count]) }
                center, scale = if use_input_stats { -> AD_channel_statistics(AD_float(rows), like, dims, eps) } else {
                    -> AD_known_statistics(means, variances, shape, eps)
                }
                share = reshape(g, size(rows))
                dinput, dweight, dbias = AD_channels_backward(share, rows, AD_as_channels(factors, shape), center, scale, dims, use_input_stats)
                grad input = reshape(dinput, size(input))
                grad weight = sum(reshape(type_as(dweight, like), [count, channels]), [0])
                grad bias = sum(reshape(type_as(dbias, like), [count, channels]), [0])
            "),
            ("+1.3 +2", "
                groups = [size(input)[0], size(input)[1], -1]
                own, rstd = AD_normal(reshape(input, groups), eps)
                scaled = AD_channels(weight, g)
                normal = if use_input_stats { -> reshape(own, size(input)) } else { -> AD_known_normal(input, running_mean, running_var, eps) }
                grad input = if use_input_stats {
                    -> reshape(AD_normal_backward(reshape(scaled, groups), own, rstd), size(input))
                } else {
                    -> scaled * AD_of_channels(rsqrt(prim::unchecked_unwrap_optional(running_var) + eps), dim(g))
                }
                grad weight = AD_sum_to_channels(g * normal)
                grad bias = AD_sum_to_channels(g)
            "),
            ("def AD_known_normal(input, mean: Tensor?, variance: Tensor?, eps: float)  1.3 2", "
                there = AD_of_channels(prim::unchecked_unwrap_optional(mean), dim(input))
                -> (input - there) * AD_of_channels(rsqrt(prim::unchecked_unwrap_optional(variance) + eps), dim(input))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(sums().adding(2).subtracting().squaring()),
        semantics: Has(DECLARED.alias(A::BatchNorm { training_operand: 5 })),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "2x4x3 4 4 none none yes float:0.1 float:0.01 no",
            "2x4x3x2 none none none none yes float:0.1 float:0.01 no",
            "2x4x3 4 4 4 4 no float:0.1 float:0.01 no",
        ])),
    },
    Row {
        kind: "aten::log_sigmoid_forward",
        shape: Has(&[sized(S::Like, E::Same)]),
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
        kind: "aten::native_batch_norm_backward",
        shape: Has(&[sized(S::Each(&[S::Of("input"), S::Channels("input"), S::Channels("input")]), E::Of("input"))]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                center, scale = AD_used_statistics(running_mean, running_var, save_mean, save_invstd, train, eps)
                of_grad, of_input, of_weight = AD_batch_norm_twice(g0, g1, g2, grad_out, input, weight, center, scale, train)
                grad grad_out = of_grad
                grad input = of_input
                grad weight = of_weight
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::native_group_norm",
        shape: Has(&[sized(S::Each(&[S::Like, S::GroupStatistics, S::GroupStatistics]), E::Each(&[E::Same, E::Statistics, E::Statistics]))]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2", "
                mask = [True, __isnot__(weight, None), __isnot__(bias, None)]
                dinput, dweight, dbias = native_group_norm_backward(AD_given(g0, input), input, result1, result2, weight, N, C, HxW, group, mask)
                grad input = if prim::AutogradAnyNonZero(g1, g2) { -> dinput + AD_statistics_backward(g1, g2, input, result1, result2) } else { -> dinput }
                grad weight = dweight
                grad bias = dbias
            "),
            // Unlike the statistics of other norms, these have gradients, too.
            ("def AD_statistics_backward(mean_grad, rstd_grad, input, mean, rstd)  2", "
                rows = reshape(input, [size(mean)[0], size(mean)[1], -1])
                scale = unsqueeze(rstd, -1)
                of_mean = if prim::AutogradAnyNonZero(mean_grad) { -> expand_as(unsqueeze(mean_grad, -1), rows) } else { -> zeros_like(rows) }
                of_rstd = if prim::AutogradAnyNonZero(rstd_grad) {
                    -> (rows - unsqueeze(mean, -1)) * (scale * scale * scale * unsqueeze(rstd_grad, -1))
                } else { -> zeros_like(rows) }
                -> reshape((of_mean - of_rstd) / size(rows)[-1], size(input))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x4x3 4 4 int:2 int:4 int:3 int:2 float:0.01"])),
    },
    Row {
        kind: "aten::native_group_norm_backward",
        shape: Has(&[sized(S::Each(&[S::Of("input"), S::Channels("input"), S::Channels("input")]), E::Each(&[E::Of("input"), E::OfParameter, E::OfParameter]))]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "
                groups = [N, group, HxW * floordiv(C, group)]
                scale = unsqueeze(rstd, -1)
                normal = (reshape(input, groups) - unsqueeze(mean, -1)) * scale
                rows = reshape(AD_given(g0, input), groups)
                of_share = reshape(AD_normal_backward(rows, normal, scale), size(input))
                of_weight = AD_given_to_channels(g1, input)
                more = reshape(of_weight * grad_out, groups)
                grad grad_out = AD_channels(weight, of_share) + of_weight * reshape(normal, size(input)) + AD_given_to_channels(g2, input)
                grad input = reshape(AD_normal_twice(rows, reshape(AD_channels(weight, grad_out), groups), normal, scale, more), size(input))
                grad weight = AD_sum_to_channels(grad_out * of_share)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::norm_except_dim",
        shape: Has(&[sized(S::ReducedExcept, E::Parts)]),
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
        kind: "aten::renorm",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // Norms and their factors are floats, and the gradient is rounded once.
            ("+2 halves", "
                rows = AD_slices(self, dim)
                given = AD_slices(g, dim)
                wide = AD_float(rows)
                long = AD_norm_of_floats(wide, norm(wide, p, [1], True), Float(p), [1], True)
                through = AD_norm_of_dims(sum(AD_float(rows * given), [1], True), wide, long, Float(p), [1], True)
                inverse = reciprocal(long + 1e-7)
                shortened = type_as(inverse * Float(maxnorm) * (AD_float(given) - inverse * through), self)
                each = where(expand_as(AD_too_long(long, Float(maxnorm)), rows), shortened, given)
                grad self = transpose(reshape(each, size(transpose(self, dim, 0))), dim, 0)
            "),
            ("+1.3 +2", "
                rows = AD_slices(self, dim)
                given = AD_slices(g, dim)
                long = norm(rows, p, [1], True)
                shortened = AD_renormed(given, rows, long, Float(p), Float(maxnorm))
                each = where(expand_as(AD_too_long(long, Float(maxnorm)), rows), shortened, given)
                grad self = transpose(reshape(each, size(transpose(self, dim, 0))), dim, 0)
            "),
            // Slices along a dimension as rows, and the inverse.
            ("def AD_slices(self, dim: int)  1.3 2", "
                -> flatten(transpose(self, dim, 0), 1, -1)
            "),
            ("def AD_renormed(grad, rows, long, p: float, most: float)  1.3 2", "
                inverse = 1 / (long + 1e-7)
                through = AD_norm_of_dims(sum(rows * grad, [1], True), rows, long, p, [1], True)
                -> inverse * most * (grad - inverse * through)
            "),
            // A slice whose norm equals the limit is scaled in gradients up to 1.9.
            ("def AD_too_long(long, most: float)  1.3 2 until=1.10", "
                -> long >= most
            "),
            ("def AD_too_long(long, most: float)  2 from=1.10", "
                -> long > most
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "4x3 int:2 int:0 float:0.5",
            "4x3x2 int:1 int:1 float:2.",
            "4x3 float:3. int:-1 int:1",
            "4x3 float:0.5 int:0 int:4",
            "4x3 float:inf int:0 float:0.5",
        ])),
    },
    Row {
        kind: "aten::rms_norm",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2 halves", "
                first = dim(input) - len(normalized_shape)
                rows = flatten(AD_float(input), first, -1)
                scale = rsqrt(mean(rows * rows, [-1], True) + AD_least(eps, input))
                share = flatten(AD_weighed(AD_float(g), weight), first, -1)
                bent = sum(share * rows, [-1], True) * (pow(scale, 3) * -0.5) / size(rows)[-1]
                grad input = type_as(reshape(share * scale + bent * (rows * 2.), size(input)), input)
                grad weight = type_as(_grad_sum_to_size(AD_float(g) * reshape(rows * scale, size(input)), normalized_shape), g)
            "),
            ("+2", "
                first = dim(input) - len(normalized_shape)
                rows = flatten(input, first, -1)
                scale = rsqrt(mean(rows * rows, [-1], True) + AD_least(eps, input))
                normal = rows * scale
                share = flatten(AD_weighed(g, weight), first, -1)
                grad input = reshape(scale * (share - normal * mean(share * normal, [-1], True)), size(input))
                grad weight = _grad_sum_to_size(g * reshape(normal, size(input)), normalized_shape)
            "),
            ("def AD_least(eps: float?, input)  2", "
                -> if __is__(eps, None) {
                    -> if prim::dtype(input) == 7 { -> 2.220446049250313e-16 } else { -> 1.1920928955078125e-07 }
                } else { -> prim::unchecked_cast(eps) }
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&["2x4x3 ints:[3] 3 float:0.01", "2x4x3 ints:[4,3] none none"])),
    },
];
