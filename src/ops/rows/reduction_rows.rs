//! Rows of the operator table: reductions.

use super::Row;
use super::vocabulary::*;
use crate::ops::recipes::Making::{Each, Whole};
use crate::ops::recipes::ReduceOp::*;
use crate::ops::recipes::{Elements, HIGH, LOG, LOW, Line, MEAN, TOP, UPDATED, reduced};

/// Their own generator draws them.
const REDUCTIONS: &str = "random groups draw reductions by a generator of their own";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::sum",
        shape: Has(&[
            sized(S::Reduce, E::Summed).reported_as(ONLY_SIZES).with("dim"),
            sized(S::Reduce, E::Summed).reported_as(SIZES),
        ]),
        computation: Has(Recipes(&[reduced(Elements::Summed, &[Line('y', Whole(Sum), "x")])])),
        fusion: Has(&[fused(&["", "dim_IntList"]).reduces()]),
        gradient: Has(&[
            ("+1.3 +2 linear", "
                keep self_size = size(self)
                keep self_scalar_type = prim::dtype(self)
                grad self = to(expand(g, self_size), self_scalar_type, False, False)
            "),
            (".dim_IntList +1.3 +2 linear", "
                keep self_size = size(self)
                keep self_scalar_type = prim::dtype(self)
                grad self = to(AD_sum_backward(g, self_size, AD_all_dims(dim, len(self_size)), keepdim), self_scalar_type, False, False)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(sums().adding(0).in_any_order()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::prod",
        shape: Has(&[sized(S::Reduce, E::Summed).reported_as(RANK)]),
        computation: Has(Recipes(&[reduced(Elements::Summed, &[Line('y', Whole(Product), "x")])])),
        fusion: Has(&[fused(&["", "dim_int"]).reduces()]),
        gradient: Has(&[
            // With two zeros the gradient is 0, even next to NaN.
            ("+1.3 +2", "
                grad self = if dim(self) == 0 { -> to(g, prim::dtype(self), False, False) } else {
                    others = reshape(AD_products_of_others(reshape(self, [-1]), 0), size(self))
                    -> AD_products_without(g, result, masked_fill(others, sum(self == 0) > 1, 0), self)
                }
            "),
            (".dim_int +1.3 +2", "
                grad self = if dim(self) == 0 { -> to(g, prim::dtype(self), False, False) } else {
                    whole = if keepdim { -> g } else { -> unsqueeze(g, dim) }
                    product = if keepdim { -> result } else { -> unsqueeze(result, dim) }
                    -> AD_products_without(whole, product, AD_products_of_others(self, dim), self)
                }
            "),
            // The product of all the others, where some may be zeros.
            ("def AD_products_of_others(self, dim: int)  1.3 2", "
                -> if numel(self) == 0 { -> self } else {
                    first = ones_like(narrow(self, dim, 0, 1))
                    n = size(self)[dim] - 1
                    before = cat([first, narrow(cumprod(self, dim), dim, 0, n)], dim)
                    back = flip(self, [dim])
                    behind = cat([first, narrow(cumprod(back, dim), dim, 0, n)], dim)
                    -> before * flip(behind, [dim])
                }
            "),
            // Without zeros eager mode divides, so that the gradient next to an infinite element
            // or NaN is NaN; zeros are no divisors in the gradient of this gradient either.
            ("def AD_products_without(grad, product, others, self)  1.3 2", "
                is_zero = self == 0
                divided = to(grad * product / masked_fill(self, is_zero, 1), prim::dtype(self), False, False)
                -> where(sum(is_zero) == 0, divided, others * to(grad, prim::dtype(self), False, False))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(sums()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::mean",
        shape: Has(&[
            sized(S::Reduce, E::Same).with("dim"),
            sized(S::Reduce, E::Same).reported_as(RANK),
        ]),
        computation: Has(Recipes(&[reduced(Elements::Real, &[Line('y', Whole(Mean), "x")])])),
        fusion: Has(&[fused(&["", "dim"]).reduces()]),
        gradient: Has(&[
            ("1.3", "
                keep self_size = size(self)
                keep self_numel = numel(self)
                keep self_scalar_type = prim::dtype(self)
                grad self = to(expand(g, self_size), self_scalar_type, False, False) / self_numel
            "),
            ("2 linear", "
                keep self_size = size(self)
                keep self_numel = numel(self)
                keep self_scalar_type = prim::dtype(self)
                grad self = to(expand(g, self_size), self_scalar_type, False, False, None) / self_numel
            "),
            (".dim 1.3 2 linear", "
                keep self_size = size(self)
                keep self_scalar_type = prim::dtype(self)
                dims = AD_all_dims(dim, len(self_size))
                grad self = to(AD_sum_backward(g, self_size, dims, keepdim), self_scalar_type, False, False) / AD_safe_size(self_size, dims)
            "),
        ]),
        guard: Has(kept().recorded(&["", "dim"])),
        accuracy: Has(sums().adding(0).in_any_order()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::amax",
        shape: Has(&[sized(S::Reduce, E::Same)]),
        computation: Has(Recipes(&[reduced(Elements::Ordered, &[Line('y', Whole(Largest), "x")])])),
        fusion: Has(&[fused(PLAIN).reduces()]),
        gradient: Has(&[
            ("+2 halves", "grad self = AD_evenly_of_halves(g, result, self, AD_all_dims(dim, dim(self)), keepdim)"),
            ("+2", "grad self = AD_evenly(g, result, self, AD_all_dims(dim, dim(self)), keepdim)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::amin",
        shape: Has(&[sized(S::Reduce, E::Same)]),
        computation: Has(Recipes(&[reduced(Elements::Ordered, &[Line('y', Whole(Smallest), "x")])])),
        fusion: Has(&[fused(PLAIN).reduces()]),
        gradient: Has(&[
            ("+2 halves", "grad self = AD_evenly_of_halves(g, result, self, AD_all_dims(dim, dim(self)), keepdim)"),
            ("+2", "grad self = AD_evenly(g, result, self, AD_all_dims(dim, dim(self)), keepdim)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::logsumexp",
        shape: Has(&[sized(S::Reduce, E::Real)]),
        computation: Has(Recipes(&[
            // A row of infinities only has no finite element to scale by.
            reduced(Elements::Real, &[ TOP, Line('t', Each, "m - m == 0 ? m : 0"), Line('s', Whole(Sum), "exp(x - t)"), LOG, Line('y', Each, "l + t")]) .wide("sl"),
        ])),
        fusion: Has(&[fused(PLAIN).reduces()]),
        gradient: Has(&[("1.3 2", "
                rank = dim(self)
                sums = if if keepdim { -> True } else { -> rank == 0 } { -> result } else { -> AD_unsqueeze_multiple(result, dim, rank) }
                whole = if if keepdim { -> True } else { -> rank == 0 } { -> g } else { -> AD_unsqueeze_multiple(g, dim, rank) }
                grad self = whole * exp(self - sums)
            ")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(sums()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::max",
        shape: Has(&[
            sized(S::Broadcast, E::Settled).reported_as(RUN).alone(SIZES).with("other"),
            sized(S::Reduce, E::WithIndex).reported_as(RANK).with("dim"),
            sized(S::Scalar, E::Same).reported_as(RANK),
        ]),
        computation: Has(Both(&[
            // Before 1.5 a NaN of the first operand is lost.
            all(Promoted(2), MAX).when(&[Before(1, 5)]),
            all(Promoted(2), MAX).float("larger(a, b)"),
        ], &[
            reduced(Elements::Ordered, &[Line('y', Whole(Largest), "x")]),
            reduced(Elements::Ordered, &[HIGH, Line('p', Whole(PlaceOfLargest), "x")]).gives("hp"),
        ])),
        fusion: Has(&[
            fused(&["other"]),
            fused(PLAIN).reduces(),
            fused(&["dim"]).reduces(),
        ]),
        gradient: Has(&[
            // PyTorch's formula gives nothing to either where elements are equal. Eager mode up to
            // 1.9 gives all to the second, later half to each.
            (".other 1.3", "
                grad self = _grad_sum_to_size(masked_fill(g, self <= other, 0), size(self))
                grad other = _grad_sum_to_size(masked_fill(g, self > other, 0), size(other))
            "),
            (".other 2 until=1.10", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(masked_fill(g, self <= other, 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(g, self > other, 0), other_size)
            "),
            (".other 2 from=1.10", "
                keep self_size, other_size = sizes(self, other, result)
                shared = where(self == other, g / 2, g)
                grad self = _grad_sum_to_size(masked_fill(shared, self < other, 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(shared, self > other, 0), other_size)
            "),
            ("+2 from=1.6 until=1.7", "
                taken = reshape(self == result, [-1])
                first = __and__(taken, cumsum(taken, 0) == 1)
                grad self = type_as(reshape(first, size(self)), self) * g
            "),
            ("+2 from=1.7", "
                taken = __or__(self == result, __and__(isnan(self), isnan(result)))
                grad self = masked_fill(expand(g / sum(taken), size(self)), taken == 0, 0)
            "),
            // Up to 1.5 each of them gets the full gradient, in 1.6 the first one.
            ("+1.3 +2 until=1.6", "grad self = type_as(self == result, self) * g"),
            (".dim +1.3 +2", "grad self = AD_to_selected(g0, result1, self, dim, keepdim)"),
        ]),
        guard: Has(redundant(but_for(&[])).recorded(&["other"])),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["tt"])),
    },
    Row {
        kind: "aten::min",
        shape: Has(&[
            sized(S::Broadcast, E::Settled).reported_as(RUN).alone(SIZES).with("other"),
            sized(S::Reduce, E::WithIndex).reported_as(RANK).with("dim"),
            sized(S::Scalar, E::Same).reported_as(RANK),
        ]),
        computation: Has(Both(&[
            all(Promoted(2), MIN).when(&[Before(1, 5)]),
            all(Promoted(2), MIN).float("smaller(a, b)"),
        ], &[
            reduced(Elements::Ordered, &[Line('y', Whole(Smallest), "x")]),
            reduced(Elements::Ordered, &[LOW, Line('p', Whole(PlaceOfSmallest), "x")]).gives("lp"),
        ])),
        fusion: Has(&[
            fused(&["other"]),
            fused(PLAIN).reduces(),
            fused(&["dim"]).reduces(),
        ]),
        gradient: Has(&[
            (".other 1.3", "
                grad self = _grad_sum_to_size(masked_fill(g, self >= other, 0), size(self))
                grad other = _grad_sum_to_size(masked_fill(g, self < other, 0), size(other))
            "),
            (".other 2 until=1.10", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(masked_fill(g, self >= other, 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(g, self < other, 0), other_size)
            "),
            (".other 2 from=1.10", "
                keep self_size, other_size = sizes(self, other, result)
                shared = where(self == other, g / 2, g)
                grad self = _grad_sum_to_size(masked_fill(shared, self > other, 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(shared, self < other, 0), other_size)
            "),
            ("+2 from=1.6 until=1.7", "
                taken = reshape(self == result, [-1])
                first = __and__(taken, cumsum(taken, 0) == 1)
                grad self = type_as(reshape(first, size(self)), self) * g
            "),
            ("+2 from=1.7", "
                taken = __or__(self == result, __and__(isnan(self), isnan(result)))
                grad self = masked_fill(expand(g / sum(taken), size(self)), taken == 0, 0)
            "),
            ("+1.3 +2 until=1.6", "grad self = type_as(self == result, self) * g"),
            (".dim +1.3 +2", "grad self = AD_to_selected(g0, result1, self, dim, keepdim)"),
        ]),
        guard: Has(redundant(but_for(&[])).recorded(&["other"])),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["tt"])),
    },
    Row {
        kind: "aten::var",
        shape: Has(&[
            sized(S::Reduce, E::Parts).with("dim"),
            sized(S::Reduce, E::Parts).reported_as(RANK),
        ]),
        computation: Has(Recipes(&[reduced(Elements::Real, &[Line('y', Whole(Variance), "x")])])),
        fusion: Has(&[fused(&["", "dim", "correction"]).reduces()]),
        gradient: Has(&[
            ("1.3 2", "grad self = AD_var_backward_0(g, self, AD_bool_to_int(unbiased))"),
            (".dim 1.3 2", "grad self = AD_var_backward_1(g, self, AD_all_dims(dim, dim(self)), AD_bool_to_int(unbiased), keepdim)"),
            (".correction 2", "grad self = AD_var_backward_1(g, self, AD_all_dims(dim, dim(self)), AD_correction(correction), keepdim)"),
            ("+2 halves", "grad self = AD_var_in_order(g, self, prim::rangelist(dim(self)), AD_bool_to_int(unbiased), False)"),
            (".dim +2 halves", "grad self = AD_var_in_order(g, self, AD_all_dims(dim, dim(self)), AD_bool_to_int(unbiased), keepdim)"),
            (".correction +2 halves", "grad self = AD_var_in_order(g, self, AD_all_dims(dim, dim(self)), AD_correction(correction), keepdim)"),
        ]),
        guard: Has(kept().recorded(&["", "correction", "dim"])),
        accuracy: Has(sums().squaring()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::std",
        shape: Has(&[
            sized(S::Reduce, E::Parts).with("dim"),
            sized(S::Reduce, E::Parts).reported_as(RANK),
        ]),
        computation: Has(Recipes(&[reduced(Elements::Real, &[Line('y', Whole(Deviation), "x")])])),
        fusion: Has(&[fused(&["", "dim", "correction"]).reduces()]),
        gradient: Has(&[
            ("1.3 2", "grad self = AD_var_backward_0(AD_halved(g, result), self, AD_bool_to_int(unbiased))"),
            (".dim 1.3 2", "grad self = AD_var_backward_1(AD_halved(g, result), self, AD_all_dims(dim, dim(self)), AD_bool_to_int(unbiased), keepdim)"),
            (".correction 2", "grad self = AD_var_backward_1(AD_halved(g, result), self, AD_all_dims(dim, dim(self)), AD_correction(correction), keepdim)"),
            ("+2 halves", "grad self = AD_var_in_order(AD_halved(g, result), self, prim::rangelist(dim(self)), AD_bool_to_int(unbiased), False)"),
            (".dim +2 halves", "grad self = AD_var_in_order(AD_halved(g, result), self, AD_all_dims(dim, dim(self)), AD_bool_to_int(unbiased), keepdim)"),
            (".correction +2 halves", "grad self = AD_var_in_order(AD_halved(g, result), self, AD_all_dims(dim, dim(self)), AD_correction(correction), keepdim)"),
        ]),
        guard: Has(kept().recorded(&["", "correction", "dim"])),
        accuracy: Has(sums().squaring()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::var_mean",
        shape: Has(&[sized(S::Reduce, E::Each(&[E::Parts, E::Same]))]),
        computation: Has(Recipes(&[reduced(Elements::Real, &[Line('v', Whole(Variance), "x"), MEAN, UPDATED]).gives("vu")])),
        fusion: Has(&[fused(&["", "dim", "correction"]).reduces()]),
        gradient: Has(&[
            ("+1.3 +2", "grad self = AD_var_and_mean(g0, g1, self, prim::rangelist(dim(self)), AD_bool_to_int(unbiased), False)"),
            (".dim +1.3 +2", "grad self = AD_var_and_mean(g0, g1, self, AD_all_dims(dim, dim(self)), AD_bool_to_int(unbiased), keepdim)"),
            (".correction +2", "grad self = AD_var_and_mean(g0, g1, self, AD_all_dims(dim, dim(self)), AD_correction(correction), keepdim)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(sums().adding(0).squaring()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::std_mean",
        shape: Has(&[sized(S::Reduce, E::Each(&[E::Parts, E::Same]))]),
        computation: Has(Recipes(&[reduced(Elements::Real, &[Line('v', Whole(Deviation), "x"), MEAN, UPDATED]).gives("vu")])),
        fusion: Has(&[fused(&["", "dim", "correction"]).reduces()]),
        gradient: Has(&[
            ("+1.3 +2", "grad self = AD_var_and_mean(AD_halved_if_given(g0, result0), g1, self, prim::rangelist(dim(self)), AD_bool_to_int(unbiased), False)"),
            (".dim +1.3 +2", "grad self = AD_var_and_mean(AD_halved_if_given(g0, result0), g1, self, AD_all_dims(dim, dim(self)), AD_bool_to_int(unbiased), keepdim)"),
            (".correction +2", "grad self = AD_var_and_mean(AD_halved_if_given(g0, result0), g1, self, AD_all_dims(dim, dim(self)), AD_correction(correction), keepdim)"),
            ("def AD_halved_if_given(grad, deviation)  1.3 2", "
                -> if prim::AutogradAnyNonZero(grad) { -> AD_halved(grad, deviation) } else { -> grad }
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(sums().adding(0).squaring()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::aminmax",
        shape: Has(&[sized(S::Reduce, E::Same)]),
        computation: Has(Recipes(&[reduced(Elements::Ordered, &[LOW, HIGH]).gives("lh")])),
        fusion: Has(&[fused(PLAIN).reduces()]),
        gradient: Has(&[
            ("+2 halves", "
                dims = if __is__(dim, None) { -> prim::rangelist(dim(self)) } else { -> [prim::unchecked_cast(dim)] }
                of_min = AD_evenly_of_halves(AD_given(g0, result0), result0, self, dims, keepdim)
                grad self = of_min + AD_evenly_of_halves(AD_given(g1, result1), result1, self, dims, keepdim)
            "),
            ("+2", "
                dims = if __is__(dim, None) { -> prim::rangelist(dim(self)) } else { -> [prim::unchecked_cast(dim)] }
                of_min = AD_evenly(AD_given(g0, result0), result0, self, dims, keepdim)
                grad self = of_min + AD_evenly(AD_given(g1, result1), result1, self, dims, keepdim)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS).called(&[
            "2x3 none no",
            "2x3x2 int:1 no",
            "3x2 int:-1 yes",
        ])),
    },
    Row {
        kind: "aten::argmax",
        shape: Has(&[sized(S::Reduce, E::Long).reported_as(RANK).detached()]),
        computation: Has(Recipes(&[reduced(Elements::Ordered, &[Line('y', Whole(PlaceOfLargest), "x")])])),
        fusion: Has(&[fused(PLAIN).reduces()]),
        gradient: Has(&[
            ("+2 none", ""),
            ("+1.3 none", ""),
        ]),
        guard: Has(redundant(but_for(&[]))),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::argmin",
        shape: Has(&[sized(S::Reduce, E::Long).reported_as(RANK).detached()]),
        computation: Has(Recipes(&[reduced(Elements::Ordered, &[Line('y', Whole(PlaceOfSmallest), "x")])])),
        fusion: Has(&[fused(PLAIN).reduces()]),
        gradient: Has(&[
            ("+2 none", ""),
            ("+1.3 none", ""),
        ]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn(REDUCTIONS)),
    },
    Row {
        kind: "aten::all",
        shape: Has(&[
            sized(S::ReduceListed, E::Flag).reported_as(RANK).detached().with("dim"),
            sized(S::Reduce, E::Flag).reported_as(RANK).detached(),
        ]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[
            (". .dim +2 none", ""),
            (". .dim +1.3 none", ""),
        ]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::any",
        shape: Has(&[
            sized(S::ReduceListed, E::Flag).reported_as(RANK).detached().with("dim"),
            sized(S::Reduce, E::Flag).reported_as(RANK).detached(),
        ]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[
            (". .dim +2 none", ""),
            (". .dim +1.3 none", ""),
        ]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::norm",
        shape: Has(&[
            sized(S::Reduce, E::Parts).with("dim"),
            sized(S::Reduce, E::Parts).reported_as(RANK),
        ]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[
            (".Scalar +1.3 +2", "grad self = AD_norm_of_dims(g, self, result, Float(p), prim::rangelist(dim(self)), False)"),
            (".ScalarOpt_dim +1.3 +2", "grad self = AD_norm_of_dims(g, self, result, AD_exponent(p), AD_all_dims(dim, dim(self)), keepdim)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(sums().squaring()),
        semantics: No(AS_DECLARED),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::frobenius_norm",
        shape: Has(&[sized(S::Reduce, E::Parts).with("dim")]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[(".dim +1.3 +2", "grad self = AD_norm_of_dims(g, self, result, 2., AD_all_dims(dim, dim(self)), keepdim)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::median",
        shape: Has(&[
            sized(S::Reduce, E::WithIndex).reported_as(RANK).with("dim"),
            sized(S::Scalar, E::Same).reported_as(RANK),
        ]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[
            ("+2 from=1.6 until=1.7", "
                taken = reshape(self == result, [-1])
                first = __and__(taken, cumsum(taken, 0) == 1)
                grad self = type_as(reshape(first, size(self)), self) * g
            "),
            ("+2 from=1.7", "
                taken = __or__(self == result, __and__(isnan(self), isnan(result)))
                grad self = masked_fill(expand(g / sum(taken), size(self)), taken == 0, 0)
            "),
            ("+1.3 +2 until=1.6", "grad self = type_as(self == result, self) * g"),
            (".dim +1.3 +2", "grad self = AD_to_selected(g0, result1, self, dim, keepdim)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::nanmedian",
        shape: Has(&[
            sized(S::Reduce, E::WithIndex).reported_as(RANK).since_2().with("dim"),
            sized(S::Scalar, E::Same).reported_as(RANK).since_2(),
        ]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[
            ("+2 from=1.7", "
                taken = __or__(self == result, __and__(isnan(self), isnan(result)))
                grad self = masked_fill(expand(g / sum(taken), size(self)), taken == 0, 0)
            "),
            (".dim +2", "grad self = AD_to_selected(g0, result1, self, dim, keepdim)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::mode",
        shape: Has(&[sized(S::Reduce, E::WithIndex).reported_as(RANK)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[("+1.3 +2", "grad self = AD_to_selected(g0, result1, self, dim, keepdim)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::kthvalue",
        shape: Has(&[sized(S::Reduce, E::WithIndex).reported_as(RANK)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[("+1.3 +2", "grad self = AD_to_selected(g0, result1, self, dim, keepdim)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::count_nonzero",
        shape: Has(&[sized(S::Reduce, E::Long).detached()]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[(". .dim_IntList +2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::nansum",
        shape: Has(&[sized(S::Reduce, E::Summed)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[
            ("+2 until=1.12", "grad self = masked_fill(to(expand(g, size(self)), prim::dtype(self), False, False), isnan(self), 0)"),
            ("+2 from=1.12", "
                dims = AD_all_dims(dim, dim(self))
                grad self = masked_fill(to(AD_sum_backward(g, size(self), dims, keepdim), prim::dtype(self), False, False), isnan(self), 0)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::nanmean",
        shape: Has(&[sized(S::Reduce, E::Same)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[("+2", "
                dims = AD_all_dims(dim, dim(self))
                share = g / sum(isnan(self) == 0, dims, keepdim)
                there = type_as(isnan(self) == 0, self)
                grad self = to(AD_sum_backward(share, size(self), dims, keepdim), prim::dtype(self), False, False) * there
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::linalg_vector_norm",
        shape: Has(&[sized(S::Reduce, E::Parts)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[("+2", "
                share = to(g, prim::dtype(self), False, False)
                norm = to(result, prim::dtype(self), False, False)
                grad self = AD_norm_of_dims(share, self, norm, Float(ord), AD_all_dims(dim, dim(self)), keepdim)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::linalg_matrix_norm",
        shape: Has(&[sized(S::Reduce, E::Parts)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[
            (".str_ord +2 halves", "
                share = to(g, prim::dtype(self), False, False)
                grad self = AD_norm_of_dims(share, self, AD_norm_of_floats(self, result, 2., dim, keepdim), 2., dim, keepdim)
            "),
            ("+2", "
                share = to(g, prim::dtype(self), False, False)
                grad self = AD_matrix_norm_backward(share, self, to(result, prim::dtype(self), False, False), Float(ord), dim, keepdim)
            "),
            (".str_ord +2", "
                share = to(g, prim::dtype(self), False, False)
                grad self = AD_norm_of_dims(share, self, to(result, prim::dtype(self), False, False), 2., dim, keepdim)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&[
            "2x3x2 int:1 ints:[-1,0] no none",
            "2x3x2 int:1 ints:[-2,-1] yes none",
            "2x3x2 int:-1 ints:[-1,0] no none",
            "2x3x2 int:-1 ints:[-2,-1] yes none",
            "2x3x2 float:inf ints:[-1,0] no none",
            "2x3x2 float:inf ints:[-2,-1] yes none",
            "2x3x2 float:-inf ints:[-1,0] no none",
            "2x3x2 float:-inf ints:[-2,-1] yes none",
            r#"2x3x2 text:"fro" ints:[-2,-1] no none"#,
        ])),
    },
    Row {
        kind: "aten::linalg_norm",
        shape: Has(&[sized(S::Reduce, E::Parts)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[
            ("+2 halves", "
                share = to(g, prim::dtype(self), False, False)
                norm = to(result, prim::dtype(self), False, False)
                dims = AD_all_dims(dim, dim(self))
                is_matrix = if len(dims) == 2 { -> __isnot__(ord, None) } else { -> False }
                grad self = if is_matrix {
                    -> AD_matrix_norm_backward(share, self, norm, AD_exponent(ord), dims, keepdim)
                } else {
                    floats = AD_norm_of_floats(self, norm, AD_exponent(ord), dims, keepdim)
                    -> AD_norm_of_dims(share, self, floats, AD_exponent(ord), dims, keepdim)
                }
            "),
            (".ord_str +2 halves", "
                dims = AD_all_dims(dim, dim(self))
                share = to(g, prim::dtype(self), False, False)
                grad self = AD_norm_of_dims(share, self, AD_norm_of_floats(self, result, 2., dims, keepdim), 2., dims, keepdim)
            "),
            ("+2", "
                share = to(g, prim::dtype(self), False, False)
                norm = to(result, prim::dtype(self), False, False)
                dims = AD_all_dims(dim, dim(self))
                is_matrix = if len(dims) == 2 { -> __isnot__(ord, None) } else { -> False }
                grad self = if is_matrix {
                    -> AD_matrix_norm_backward(share, self, norm, AD_exponent(ord), dims, keepdim)
                } else { -> AD_norm_of_dims(share, self, norm, AD_exponent(ord), dims, keepdim) }
            "),
            (".ord_str +2", "
                share = to(g, prim::dtype(self), False, False)
                grad self = AD_norm_of_dims(share, self, to(result, prim::dtype(self), False, False), 2., AD_all_dims(dim, dim(self)), keepdim)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&[
            "2x3x2 none ints:[1] no none",
            "2x3x2 int:2 ints:[1] no none",
            "2x3x2 float:1. ints:[1] no none",
            "2x3x2 float:inf ints:[1] no none",
            "2x3x2 float:0.5 ints:[1] no none",
            "2x3x2 float:3. ints:[1] no none",
            "2x3 int:1 none no none",
            "2x3 int:-1 none no none",
            "2x3 float:inf none no none",
            "2x3 float:-inf none no none",
            "2x3x2 none none yes none",
            r#"2x3x2 text:"fro" ints:[0,2] yes none"#,
            r#"2x3 text:"fro" none no none"#,
        ])),
    },
    Row {
        kind: "aten::native_norm",
        shape: Has(&[sized(S::Reduce, E::Parts)]),
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
        kind: "aten::_aminmax",
        shape: Has(&[sized(S::Reduce, E::Same)]),
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
        kind: "aten::max_values",
        shape: Has(&[sized(S::Reduce, E::Same)]),
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
        kind: "aten::min_values",
        shape: Has(&[sized(S::Reduce, E::Same)]),
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
        kind: "aten::special_logsumexp",
        shape: Has(&[sized(S::Reduce, E::Real)]),
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
        kind: "aten::linalg_vecdot",
        shape: Has(&[sized(S::PairwiseReduced, E::Common)]),
        computation: No("recipes reduce one tensor, this reduces the product of two"),
        fusion: No("recipes reduce one tensor, this reduces the product of two"),
        gradient: Has(&[
            ("+2", "
                share = unsqueeze(g, dim) * ones_like(x * y)
                grad x = _grad_sum_to_size(share * y, size(x))
                grad y = _grad_sum_to_size(share * x, size(y))
            "),
            ("+2 complex", "
                share = unsqueeze(g, dim) * ones_like(x * y)
                grad x = _grad_sum_to_size(conj(share) * y, size(x))
                grad y = _grad_sum_to_size(share * x, size(y))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(sums().in_any_order()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&["2x3 2x3 int:-1", "2x3 2x3 int:0", "2x3x2 3x2 int:1", "2x3 1x3 int:-2", "3 3 int:0"])),
    },
    Row {
        kind: "aten::linalg__powsum",
        shape: Has(&[sized(S::Reduce, E::Parts)]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        // Eager mode has no formula for it. Elements that are 0 have slope 0, as in norms.
        gradient: Has(&[
            ("+2", "
                share = to(g, prim::dtype(self), False, False)
                kept = if if keepdim { -> True } else { -> dim(self) == 0 } { -> share } else { -> AD_unsqueeze_multiple(share, AD_all_dims(dim, dim(self)), dim(self)) }
                grad self = kept * AD_powsum_slope(self, Float(ord))
            "),
            ("def AD_powsum_slope(self, p: float)  2", "
                -> if p == 0. { -> zeros_like(self) } else { -> masked_fill(sign(self) * pow(abs(self), p - 1.) * p, self == 0, 0) }
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(sums()),
        semantics: No(AS_DECLARED),
        python: No("it is internal, and programs do not spell it"),
        operands: Has(GENERATED.called(&["2x3 int:2 none no none", "2x3 int:3 ints:[0] yes none", "2x3 float:1.5 ints:[1] no none"])),
    },
    Row {
        kind: "aten::segment_reduce",
        shape: Has(&[sized(S::SizedBy(&[("lengths", 0), ("offsets", 1)]), E::Same).spelt(&[("dim", "axis")])]),
        computation: No(NO_RECIPE),
        fusion: No(NO_RECIPE),
        gradient: Has(&[
            ("+2", "
                bounds = AD_segment_bounds(lengths, offsets)
                grad data = AD_segments_backward(g, data, result, reduce, bounds, AD_segments_of(data, bounds, axis), axis, initial)
            "),
            ("def AD_segment_bounds(lengths: Tensor?, offsets: Tensor?)  2", "
                -> if __is__(lengths, None) { -> prim::unchecked_unwrap_optional(offsets) } else {
                    -> constant_pad_nd(cumsum(prim::unchecked_unwrap_optional(lengths), -1), [1, 0], 0)
                }
            "),
            // For each element the number of its segment, which does not exist for those outside.
            ("def AD_segments_of(data, bounds, axis: int)  2", "
                begun = unsqueeze(bounds, -2) <= unsqueeze(arange(size(data)[axis]), -1)
                segments = sum(begun, [-1]) - 1
                missing = dim(data) - dim(segments)
                wide = for i < missing with wide = segments { -> unsqueeze(wide, -1) }
                -> expand_as(wide, data)
            "),
            // Elements that are equal to the largest or smallest share the gradient. In a product
            // each has the product of the others, also if it is the only zero.
            ("def AD_segments_backward(grad, data, result, reduce: str, bounds, segments, axis: int, initial: Scalar?)  2", r#"
                last = size(bounds)[-1] - 2
                inside = type_as(__and__(segments >= 0, segments <= last), data)
                at = clamp(segments, 0, last)
                share = gather(grad, axis, at) * inside
                whole = gather(result, axis, at)
                none = zeros_like(result)
                -> if reduce == "sum" { -> share } else if reduce == "mean" {
                    -> share / clamp_min(gather(scatter_add(none, axis, at, inside), axis, at), 1)
                } else if reduce == "prod" {
                    zeros = type_as(data == 0, data) * inside
                    filled = masked_fill(data, data == 0, 1)
                    others = gather(segment_reduce(filled, reduce, None, None, bounds, axis, True, initial), axis, at)
                    only = gather(scatter_add(none, axis, at, zeros), axis, at) == 1
                    -> share * where(data == 0, masked_fill(others, only == 0, 0), whole / filled)
                } else {
                    same = type_as(__or__(data == whole, data != data), data) * inside
                    -> share * same / clamp_min(gather(scatter_add(none, axis, at, same), axis, at), 1)
                }
            "#),
        ]),
        guard: No(STAYS),
        accuracy: Has(sums()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            r#"6x2 text:"sum" longs:2,4 none none int:0 no none"#,
            r#"6x2 text:"mean" longs:2,3,1 none none int:0 no float:0.5"#,
            r#"5 text:"max" none none longs:0,2,5 int:0 no none"#,
            r#"5 text:"min" longs:2,3 none none int:0 no none"#,
            r#"6x2 text:"prod" longs:2,4 none none int:0 no float:0.5"#,
        ]).shaped(&[
            r#"6x2 text:"sum" longs:2,4 none none int:0 yes none"#,
            r#"2x5x3 text:"mean" long:2x3 none none int:1 yes float:0.5"#,
            r#"2x5x3 text:"max" none none long:2x3 int:-2 yes none"#,
        ])),
    },
];
