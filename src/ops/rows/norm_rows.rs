//! Rows of the operator table: scans, softmaxes and norms.

use super::Row;
use super::vocabulary::*;
use crate::ops::recipes::Making::{Each, Scan, Whole};
use crate::ops::recipes::ReduceOp::*;
use crate::ops::recipes::{
    KNOWN_NORMS, LOG, Line, NORM, NORM_WITHOUT_BIAS, NORM_WITHOUT_WEIGHT, OF_PLAIN, OF_SCALED, PLAIN_NORM, TOP, native,
    native_of_batch, of_batch, of_norm, rows, scan,
};

/// Their own generator draws them.
const REDUCTIONS: &str = "random groups draw reductions by a generator of their own";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::cumsum",
        shape: Has(&[sized(S::Like, E::Summed).reported_as(SIZES)]),
        computation: Has(Recipes(&[scan(&[Line('y', Scan(Sum), "x")])])),
        fusion: Has(&[fused(PLAIN).reduces().like_first()]),
        gradient: Has(&[("+1.3 +2", "
                share = to(g, prim::dtype(self), False, False)
                grad self = if dim(self) == 0 { -> share } else { -> flip(cumsum(flip(share, [dim]), dim), [dim]) }
            ")]),
        guard: No(STAYS),
        accuracy: Has(sums().adding(0).in_any_order()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::cumprod",
        shape: Has(&[sized(S::Like, E::Summed).reported_as(SIZES)]),
        computation: Has(Recipes(&[scan(&[Line('y', Scan(Product), "x")])])),
        fusion: Has(&[fused(PLAIN).reduces().like_first()]),
        gradient: Has(&[
            ("+1.3 +2 until=1.9", "
                share = to(g, prim::dtype(self), False, False)
                grad self = if dim(self) == 0 { -> share } else { -> AD_running_products_backward(share, self, dim) }
            "),
            // After a zero the gradient is 0, after a second one even where an element is NaN.
            // Before a zero an element that is infinite or NaN has the gradient NaN: later eager
            // mode divides by it. Before a zero eager mode divides sums of halves.
            ("+2 halves from=1.9", "
                share = to(g, prim::dtype(self), False, False)
                grad self = if dim(self) == 0 { -> share } else {
                    zeros = cumsum(self == 0, dim)
                    known = masked_fill(share * result, zeros != 0, 0)
                    divided = flip(cumsum(flip(known, [dim]), dim), [dim]) / self
                    counted = masked_fill(self, __and__(zeros > 1, self * 0 != 0), 0)
                    running = AD_running_products_backward(share, counted, dim) + self * 0
                    -> where(zeros == 0, divided, masked_fill(running, zeros > (self == 0), 0))
                }
            "),
            ("+2 from=1.9", "
                share = to(g, prim::dtype(self), False, False)
                grad self = if dim(self) == 0 { -> share } else {
                    zeros = cumsum(self == 0, dim)
                    counted = masked_fill(self, __and__(zeros > 1, self * 0 != 0), 0)
                    running = AD_running_products_backward(share, counted, dim) + self * 0
                    -> masked_fill(running, zeros > (self == 0), 0)
                }
            "),
            // For each element: the product before it, times the sum `s[k] = g[k] + x[k + 1] s[k +
            // 1]` of the elements after it, computed in steps of doubling length. There is no
            // division, so that zeros are right.
            ("def AD_running_products_backward(grad, self, dim: int)  1.3 2", "
                -> if numel(self) == 0 { -> grad } else {
                    n = size(self)[dim]
                    before = cat([ones_like(narrow(self, dim, 0, 1)), narrow(cumprod(self, dim), dim, 0, n - 1)], dim)
                    sums, factors, step = for turn < (1 + ceil(log(n) * 1.4426950408889634)) with sums = grad, factors = roll(self, [-1], [dim]), step = 1 {
                        -> if step < n {
                            left = n - step
                            scale = narrow(factors, dim, 0, left)
                            nearer = narrow(sums, dim, 0, left) + scale * narrow(sums, dim, step, left)
                            longer = cat([nearer, narrow(sums, dim, left, step)], dim)
                            -> longer, cat([scale * narrow(factors, dim, step, left), narrow(factors, dim, left, step)], dim), step * 2
                        } else {
                            -> sums, factors, step
                        }
                    }
                    -> before * sums
                }
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(sums()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::logcumsumexp",
        shape: Has(&[sized(S::Like, E::Real)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[
            ("+2", "
                share = to(g, prim::dtype(self), False, False)
                grad self = AD_running_exps_backward(share, self, result, dim) - AD_running_exps_backward(-share, self, result, dim)
            "),
            // Positive and negative gradients are summed apart, by their logarithms, so that
            // nothing overflows; the logarithm of an absent one is about the least number.
            ("def AD_running_exps_backward(grad, self, result, dim: int)  2", "
                counts = grad > 0
                least = if prim::dtype(self) == 5 { -> -6e4 } else { -> -3e38 }
                logs = masked_fill(log(masked_fill(grad, counts == 0, 1)), counts == 0, least)
                -> exp(flip(logcumsumexp(flip(logs - result, [dim]), dim), [dim]) + self)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::cummax",
        shape: Has(&[sized(S::Like, E::WithIndex)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[("+2", "grad self = AD_to_selected(g0, result1, self, dim, True)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::cummin",
        shape: Has(&[sized(S::Like, E::WithIndex)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[("+2", "grad self = AD_to_selected(g0, result1, self, dim, True)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::softmax",
        shape: Has(&[sized(S::Like, E::Same).reported_as(SIZES)]),
        computation: Has(Recipes(&[
            // One quotient per row: a quotient for each element costs half as much as its
            // exponential.
            rows(&[ TOP, Line('p', Each, "exp_below(x - m)"), Line('s', Whole(Sum), "p"), Line('r', Each, "1.0 / s"), Line('y', Each, "p * r")]) .wide("sr"),
        ])),
        fusion: Has(&[fused(&["", "int"]).reduces().like_first()]),
        gradient: Has(&[
            ("1.3", "grad self = _softmax_backward_data(g, result, dim, self)"),
            (".int 2", "grad self = _softmax_backward_data(g, result, dim, prim::dtype(self))"),
        ]),
        guard: Has(redundant(but_for(&[1])).since_2().recorded(&["int"])),
        accuracy: Has(sums()),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::log_softmax",
        shape: Has(&[sized(S::Like, E::Same).reported_as(SIZES)]),
        computation: Has(Recipes(&[rows(&[TOP, Line('s', Whole(Sum), "exp_below(x - m)"), LOG, Line('y', Each, "x - m - l")]) .wide("sl")])),
        fusion: Has(&[fused(&["", "int"]).reduces().like_first()]),
        gradient: Has(&[
            ("1.3", "grad self = _log_softmax_backward_data(g, result, dim, self)"),
            (".int 2", "grad self = _log_softmax_backward_data(g, result, dim, prim::dtype(self))"),
        ]),
        guard: Has(kept().recorded(&["int"])),
        accuracy: Has(sums().adding(0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::_softmax",
        shape: Has(&[sized(S::Like, E::Widened)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::_log_softmax",
        shape: Has(&[sized(S::Like, E::Widened)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::_safe_softmax",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[("+2", "grad self = _softmax_backward_data(to(g, prim::dtype(result), False, False), result, dim, prim::dtype(self))")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "4x3 int:1 none",
            "2x4x3 int:1 int:7",
        ])),
    },
    Row {
        kind: "aten::special_softmax",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::special_log_softmax",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::layer_norm",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: Has(Recipes(&[
            NORM,
            NORM_WITHOUT_BIAS,
            NORM_WITHOUT_WEIGHT,
            PLAIN_NORM,
        ])),
        fusion: Has(&[fused(PLAIN).reduces().like_first()]),
        gradient: Has(&[
            ("2", "
                result, mean, rstd := native_layer_norm(input, normalized_shape, weight, bias, eps)
                mask = [True, __isnot__(weight, None), __isnot__(bias, None)]
                dinput, dweight, dbias = native_layer_norm_backward(g, input, normalized_shape, mean, rstd, weight, bias, mask)
                grad input = dinput
                grad weight = dweight
                grad bias = dbias
            "),
            ("+2 halves", "
                first = dim(input) - len(normalized_shape)
                rows = flatten(AD_float(input), first, -1)
                like = if __is__(weight, None) { -> input } else { -> prim::unchecked_unwrap_optional(weight) }
                center, scale = AD_channel_statistics(rows, like, [-1], eps)
                share = flatten(AD_weighed(AD_float(g), weight), first, -1)
                total = sum(share, [-1], True)
                count = size(rows)[-1]
                bent = (total * center - sum(share * rows, [-1], True)) * scale * scale * scale / count
                each = scale * share + bent * rows - (bent * center + total * scale / count)
                grad input = type_as(reshape(each, size(input)), input)
                normal = reshape((rows - center) * scale, size(input))
                grad weight = type_as(_grad_sum_to_size(AD_float(g) * normal, normalized_shape), like)
                grad bias = type_as(_grad_sum_to_size(AD_float(g), normalized_shape), like)
            "),
            ("+1.3", "
                first = dim(input) - len(normalized_shape)
                normal, rstd = AD_normal(flatten(input, first, -1), eps)
                grad input = reshape(AD_normal_backward(flatten(AD_weighed(g, weight), first, -1), normal, rstd), size(input))
                grad weight = _grad_sum_to_size(g * reshape(normal, size(input)), normalized_shape)
                grad bias = _grad_sum_to_size(g, normalized_shape)
            "),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(sums().adding(3).subtracting().squaring()),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.undrawn(REDUCTIONS).called(&[
            "4x3 ints:[3] 3 3 float:0.01 no",
            "2x4x3 ints:[4,3] 4x3 4x3 float:0.01 no",
            "2x4x3 ints:[3] none none float:0.01 no",
            "2x4x3 ints:[3] 3 none float:0.01 no",
        ]).hinted(&[of("weight").rank(1), of("bias").rank(1)])),
    },
    Row {
        kind: "aten::native_layer_norm",
        shape: Has(&[sized(S::Each(&[S::Like, S::RowStatistics, S::RowStatistics]), E::Each(&[E::Same, E::Statistics, E::Statistics]))]),
        computation: Has(Recipes(&[
            native(NORM),
            native(NORM_WITHOUT_BIAS),
            native(NORM_WITHOUT_WEIGHT),
            native(PLAIN_NORM),
        ])),
        fusion: Has(&[fused(PLAIN).reduces().like_first()]),
        gradient: Has(&[("+2", "
                mask = [True, __isnot__(weight, None), __isnot__(bias, None)]
                dinput, dweight, dbias = native_layer_norm_backward(g0, input, normalized_shape, result1, result2, weight, bias, mask)
                grad input = dinput
                grad weight = dweight
                grad bias = dbias
            ")]),
        guard: No(STAYS),
        accuracy: Has(sums().adding(0).subtracting().squaring()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS).called(&[
            "2x4x3 ints:[3] 3 3 float:0.01",
            "2x4x3 ints:[4,3] none none float:0.01",
        ])),
    },
    Row {
        kind: "aten::native_layer_norm_backward",
        shape: Has(&[sized(S::Each(&[S::Of("input"), S::NormalizedShape, S::NormalizedShape]), E::Each(&[E::Of("input"), E::OfParameter, E::OfParameter]))]),
        computation: Has(Recipes(&[
            of_norm(&["weight", "bias"], OF_SCALED),
            of_norm(&["weight"], OF_SCALED),
            of_norm(&["bias"], OF_PLAIN),
            of_norm(&[], OF_PLAIN),
        ])),
        fusion: Has(&[fused(PLAIN).reduces().like_first()]),
        gradient: Has(&[("+2", "
                first = dim(input) - len(normalized_shape)
                scale = flatten(rstd, first, -1)
                normal = (flatten(input, first, -1) - flatten(mean, first, -1)) * scale
                rows = flatten(AD_given(g0, input), first, -1)
                of_share = reshape(AD_normal_backward(rows, normal, scale), size(input))
                of_weight = AD_given(g1, input)
                more = flatten(of_weight * grad_out, first, -1)
                grad grad_out = AD_weighed(of_share, weight) + of_weight * reshape(normal, size(input)) + AD_given(g2, input)
                grad input = reshape(AD_normal_twice(rows, flatten(AD_weighed(grad_out, weight), first, -1), normal, scale, more), size(input))
                grad weight = _grad_sum_to_size(grad_out * of_share, normalized_shape)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0).subtracting()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::batch_norm",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK)]),
        computation: Has(Recipes(&[
            of_batch(NORM),
            of_batch(NORM_WITHOUT_BIAS),
            of_batch(NORM_WITHOUT_WEIGHT),
            of_batch(PLAIN_NORM),
            KNOWN_NORMS[0],
            KNOWN_NORMS[1],
            KNOWN_NORMS[2],
            KNOWN_NORMS[3],
        ])),
        fusion: Has(&[fused(PLAIN).reduces().like_first()]),
        gradient: Has(&[
            ("2", "
                result, save1, save2, reserve, impl_idx := _batch_norm_impl_index(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled)
                keep has_weight = __isnot__(weight, None)
                keep has_bias = __isnot__(bias, None)
                dinput, dweight, dbias = _batch_norm_impl_index_backward(impl_idx, input, g, weight, running_mean, running_var, save1, save2, training, eps, [True, has_weight, has_bias], reserve)
                grad input = dinput
                grad weight = dweight
                grad bias = dbias
            "),
            ("+2 halves", "
                dims = AD_all_but_channels(dim(input))
                shape = AD_channel_shape(dim(input))
                like = if __is__(weight, None) { -> input } else { -> prim::unchecked_unwrap_optional(weight) }
                center, scale = if training { -> AD_channel_statistics(AD_float(input), like, dims, eps) } else {
                    -> AD_known_statistics(running_mean, running_var, shape, eps)
                }
                dinput, dweight, dbias = AD_channels_backward(g, input, AD_as_channels(weight, shape), center, scale, dims, training)
                grad input = dinput
                grad weight = reshape(type_as(dweight, like), [-1])
                grad bias = reshape(type_as(dbias, like), [-1])
            "),
            ("+1.3", "
                result, save1, save2, impl_idx := _batch_norm_impl_index(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled)
                keep has_weight = __isnot__(weight, None)
                keep has_bias = __isnot__(bias, None)
                dinput, dweight, dbias = _batch_norm_impl_index_backward(impl_idx, input, g, weight, running_mean, running_var, save1, save2, training, eps, [True, has_weight, has_bias])
                grad input = dinput
                grad weight = dweight
                grad bias = dbias
            "),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(sums().adding(2).subtracting().squaring()),
        semantics: Has(DECLARED.alias(A::BatchNorm { training_operand: 5 })),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.undrawn(REDUCTIONS).called(&[
            "4x3 3 3 3 3 yes float:0.1 float:0.01 no",
            "4x3 3 3 none none yes float:0.1 float:0.01 no",
            "4x3x2x2 none none 3 3 no float:0.1 float:0.01 no",
            "4x3x2 3 3 3 3 no float:0.1 float:0.01 no",
        ]).hinted(&[of("weight").rank(1), of("bias").rank(1), of("running_mean").rank(1), of("running_var").rank(1)]).forwarding(true, false)),
    },
    Row {
        kind: "aten::native_batch_norm",
        shape: Has(&[sized(S::Each(&[S::Like, S::ChannelStatistics, S::ChannelStatistics]), E::Each(&[E::Same, E::Statistics, E::Statistics]))]),
        computation: Has(Recipes(&[
            native_of_batch(NORM),
            native_of_batch(NORM_WITHOUT_BIAS),
            native_of_batch(NORM_WITHOUT_WEIGHT),
            native_of_batch(PLAIN_NORM),
        ])),
        fusion: Has(&[fused(PLAIN).reduces().like_first()]),
        gradient: Has(&[("1.3 2", "
                dinput, dweight, dbias = native_batch_norm_backward(g0, input, weight, running_mean, running_var, result1, result2, training, eps, [True, True, True])
                grad input = dinput
                grad weight = dweight
                grad bias = dbias
            ")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(sums().adding(0).subtracting().squaring()),
        semantics: Has(DECLARED.alias(A::BatchNorm { training_operand: 5 })),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS).called(&[
            "4x3 3 3 3 3 yes float:0.1 float:0.01",
            "4x3x2x2 3 none 3 3 no float:0.1 float:0.01",
        ])),
    },
];
