//! Rows of the operator table: bounds, and the larger or smaller of two.

use super::Row;
use super::vocabulary::*;

/// NaN is ignored in the comparison: the result is the other operand. Of two zeros it is the first.
const FMAX: &str = "(a != a) | (a < b) ? b : a";
const FMIN: &str = "(a != a) | (a > b) ? b : a";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::fmax",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[all(Promoted(2), MAX).float(FMAX)])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            ("+2 until=2.14", "
                keep self_size, other_size = sizes(self, other, result)
                first = __or__(self >= other, isnan(other))
                grad self = _grad_sum_to_size(masked_fill(g, first == 0, 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(g, first, 0), other_size)
            "),
            ("+2 from=2.14 until=2.15", "
                keep self_size, other_size = sizes(self, other, result)
                shared = where(self == other, g / 2, g)
                grad self = _grad_sum_to_size(masked_fill(shared, self < other, 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(shared, self > other, 0), other_size)
            "),
            ("+2 from=2.15", "
                keep self_size, other_size = sizes(self, other, result)
                shared = where(self == other, g / 2, g)
                grad self = _grad_sum_to_size(masked_fill(shared, __or__(self < other, __and__(isnan(self), isnan(other) == 0)), 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(shared, __or__(other < self, isnan(other)), 0), other_size)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["tt"])),
    },
    Row {
        kind: "aten::fmin",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[all(Promoted(2), MIN).float(FMIN)])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            ("+2 until=2.14", "
                keep self_size, other_size = sizes(self, other, result)
                first = __or__(self <= other, isnan(other))
                grad self = _grad_sum_to_size(masked_fill(g, first == 0, 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(g, first, 0), other_size)
            "),
            ("+2 from=2.14 until=2.15", "
                keep self_size, other_size = sizes(self, other, result)
                shared = where(self == other, g / 2, g)
                grad self = _grad_sum_to_size(masked_fill(shared, self > other, 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(shared, self < other, 0), other_size)
            "),
            ("+2 from=2.15", "
                keep self_size, other_size = sizes(self, other, result)
                shared = where(self == other, g / 2, g)
                grad self = _grad_sum_to_size(masked_fill(shared, __or__(self > other, __and__(isnan(self), isnan(other) == 0)), 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(shared, __or__(other > self, isnan(other)), 0), other_size)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["tt"])),
    },
    Row {
        kind: "aten::maximum",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[all(Promoted(2), MAX).float("larger(a, b)")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            ("+2 until=1.10", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(masked_fill(g, self <= other, 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(g, self > other, 0), other_size)
            "),
            ("+2 from=1.10", "
                keep self_size, other_size = sizes(self, other, result)
                shared = where(self == other, g / 2, g)
                grad self = _grad_sum_to_size(masked_fill(shared, self < other, 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(shared, other < self, 0), other_size)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["tt"])),
    },
    Row {
        kind: "aten::minimum",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[all(Promoted(2), MIN).float("smaller(a, b)")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            ("+2 until=1.10", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(masked_fill(g, self >= other, 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(g, self < other, 0), other_size)
            "),
            ("+2 from=1.10", "
                keep self_size, other_size = sizes(self, other, result)
                shared = where(self == other, g / 2, g)
                grad self = _grad_sum_to_size(masked_fill(shared, self > other, 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(shared, other > self, 0), other_size)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["tt"])),
    },
    Row {
        kind: "aten::clamp",
        shape: Has(&[
            sized(S::Broadcast, E::Settled).reported_as(RANK).with("self"),
            sized(S::Broadcast, E::Settled),
        ]),
        computation: Has(Formulas(&[
            // Bounds out of the range of the type wrap, have no effect or raise, depending on the
            // release: the interpreter handles them.
            numbers(Kept, "a < b ? b : a").when(&[Before(1, 5), Missing(2), Held(1)]),
            numbers(Kept, "a > c ? c : a").when(&[Before(1, 5), Missing(1), Held(2)]),
            // For integer bounds that cross, GCC 12 at -O1 returns the lower bound for all elements
            // if it is tested first.
            numbers(Kept, "(a >= b) & (a > c) ? c : a < b ? b : a").when(&[Before(1, 5), Held(1), Held(2)]),
            all(Promoted(2), MAX).float("larger(a, b)").when(&[Since(1, 12), Missing(2), Fits(1)]),
            all(Promoted(3), "a < c ? a : c").float("smaller(a, c)").when(&[Since(1, 12), Missing(1), Fits(2)]),
            numbers(Promoted(3), "(a > b ? a : b) < c ? (a > b ? a : b) : c") .float("smaller(larger(a, b), c)") .when(&[Since(1, 12), Fits(1), Fits(2)]),
        ])),
        fusion: Has(&[
            fused(PLAIN),
            fused(&["Tensor"]).level(2),
        ]),
        gradient: Has(&[
            ("1.3", "
                both, low = if __isnot__(min, None) { low = prim::unchecked_unwrap_optional(min) -> __isnot__(max, None), low } else { -> False, min }
                self_grad, min_grad, max_grad = if both {
                    low = prim::unchecked_unwrap_optional(low)
                    high = prim::unchecked_unwrap_optional(max)
                    mask = type_as((self >= Float(low)) * (self <= Float(high)), self)
                    -> (g * mask, None, None)
                } else if __isnot__(low, None) {
                    low = prim::unchecked_unwrap_optional(low)
                    mask = type_as(self >= Float(low), self)
                    -> (g * mask, None, None)
                } else if __isnot__(max, None) {
                    high = prim::unchecked_unwrap_optional(max)
                    mask = type_as(self <= Float(high), self)
                    -> (g * mask, None, None)
                } else {
                    -> (g, None, None)
                }
                grad self = self_grad
            "),
            ("2 until=2.14", "
                above = if __isnot__(min, None) { low = prim::unchecked_cast(min) -> g * type_as(self >= low, g) } else { -> g }
                grad self = if __isnot__(max, None) { high = prim::unchecked_cast(max) -> above * type_as(self <= high, g) } else { -> above }
            "),
            // PyTorch's formula lets the gradient through at the bounds; eager mode does so up to
            // 2.13.
            ("2 from=2.14", "
                above = if __isnot__(min, None) { low = prim::unchecked_cast(min) -> g * type_as(self > low, g) } else { -> g }
                grad self = if __isnot__(max, None) { high = prim::unchecked_cast(max) -> above * type_as(self < high, g) } else { -> above }
            "),
            ("+2 eager until=2.14", "
                above = if __isnot__(min, None) { low = prim::unchecked_cast(min) -> masked_fill(g, bitwise_not(self >= low), 0) } else { -> g }
                grad self = if __isnot__(max, None) { high = prim::unchecked_cast(max) -> masked_fill(above, bitwise_not(self <= high), 0) } else { -> above }
            "),
            ("+2 eager from=2.14", "
                above = if __isnot__(min, None) { low = prim::unchecked_cast(min) -> masked_fill(g, bitwise_not(self > low), 0) } else { -> g }
                grad self = if __isnot__(max, None) { high = prim::unchecked_cast(max) -> masked_fill(above, bitwise_not(self < high), 0) } else { -> above }
            "),
            (".Tensor 2", "
                of_self, of_min, of_max = if __is__(min, None) {
                    below, of_high = AD_upper_bound(g, self, max)
                    -> below, g, of_high
                } else if __is__(max, None) {
                    beyond, of_low = AD_lower_bound(g, self, min)
                    -> beyond, of_low, g
                } else {
                    -> AD_between_bounds(g, self, prim::unchecked_unwrap_optional(min), prim::unchecked_unwrap_optional(max))
                }
                grad self = _grad_sum_to_size(of_self, size(self))
                grad min = _grad_sum_to_size(of_min, size(prim::unchecked_unwrap_optional(min)))
                grad max = _grad_sum_to_size(of_max, size(prim::unchecked_unwrap_optional(max)))
            "),
            // Ties with one bound share the gradient.
            ("def AD_upper_bound(grad, above, max: Tensor?)  2", "
                -> if __is__(max, None) { -> grad, grad } else {
                    high = prim::unchecked_unwrap_optional(max)
                    shared = where(above == high, grad / 2, grad)
                    -> masked_fill(shared, above > high, 0), masked_fill(shared, high > above, 0)
                }
            "),
            ("def AD_lower_bound(grad, self, min: Tensor?)  2", "
                -> if __is__(min, None) { -> grad, grad } else {
                    low = prim::unchecked_unwrap_optional(min)
                    shared = where(self == low, grad / 2, grad)
                    -> masked_fill(shared, self < low, 0), masked_fill(shared, low < self, 0)
                }
            "),
            // If the lower bound is above the upper or equal to it, the upper one determines the
            // result and gets the full gradient; NaN exceeds no bound.
            ("def AD_between_bounds(grad, self, low, high)  2", "
                apart = low < high
                shared = where(apart, grad / 2, grad)
                of_self = masked_fill(where(__or__(self == low, self == high), shared, grad), __or__(self < low, self > high), 0)
                takes_low = __or__(__and__(self == low, apart), __and__(self < low, low <= high))
                takes_high = __or__(__or__(__and__(self == high, apart), __and__(self > high, low <= high)), low > high)
                of_low = masked_fill(where(self == low, shared, grad), bitwise_not(takes_low), 0)
                of_high = masked_fill(where(__and__(self == high, apart), shared, grad), bitwise_not(takes_high), 0)
                -> of_self, of_low, of_high
            "),
        ]),
        guard: Has(redundant(Settled::ByOperands { numbers: false, free: &[], free_for_floats: &[1, 2] }).recorded(&["", "Tensor"])),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["tcc"]).called(&[
            "2x3 float:-0.5 float:0.5",
            "2x3 none float:0.25",
            "2x3 int:0 none",
            "2x3 2x3 2x3",
            "2x3 3 none",
            "2x3 none 2x1",
        ])),
    },
    Row {
        kind: "aten::clamp_min",
        shape: Has(&[sized(S::Broadcast, E::Settled).reported_as(RANK)]),
        computation: Has(Formulas(&[all(Promoted(2), MAX).float("larger(a, b)").when(&[Since(1, 12), Fits(1)])])),
        fusion: Has(&[fused(&["", "Tensor"]).level(2)]),
        gradient: Has(&[
            ("+1.3 +2 until=2.14", "grad self = masked_fill(g, (self >= min) == 0, 0)"),
            // Later eager mode has no gradient at the bounds, except for tensor bounds: they share
            // it.
            ("+2 from=2.14", "grad self = masked_fill(g, (self > min) == 0, 0)"),
            (".Tensor +2", "
                keep self_size, min_size = sizes(self, min, result)
                shared = where(self == min, g / 2, g)
                grad self = _grad_sum_to_size(masked_fill(shared, self < min, 0), self_size)
                grad min = _grad_sum_to_size(masked_fill(shared, min < self, 0), min_size)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["to"])),
    },
    Row {
        kind: "aten::clamp_max",
        shape: Has(&[sized(S::Broadcast, E::Settled).reported_as(RANK)]),
        computation: Has(Formulas(&[all(Promoted(2), MIN).float("smaller(a, b)").when(&[Since(1, 12), Fits(1)])])),
        fusion: Has(&[fused(&["", "Tensor"]).level(2)]),
        gradient: Has(&[
            ("+1.3 +2 until=2.14", "grad self = masked_fill(g, (self <= max) == 0, 0)"),
            ("+2 from=2.14", "grad self = masked_fill(g, (self < max) == 0, 0)"),
            (".Tensor +2", "
                keep self_size, max_size = sizes(self, max, result)
                shared = where(self == max, g / 2, g)
                grad self = _grad_sum_to_size(masked_fill(shared, self > max, 0), self_size)
                grad max = _grad_sum_to_size(masked_fill(shared, max > self, 0), max_size)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["to"])),
    },
    Row {
        kind: "aten::clip",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: No(UNFUSED),
        fusion: Has(&[unfused(&["", "Tensor"], UNFUSED)]),
        gradient: Has(&[
            ("+2 until=2.14", "
                above = if __is__(min, None) { -> g } else { low = prim::unchecked_cast(min) -> masked_fill(g, (self >= low) == 0, 0) }
                grad self = if __is__(max, None) { -> above } else { high = prim::unchecked_cast(max) -> masked_fill(above, (self <= high) == 0, 0) }
            "),
            ("+2 from=2.14", "
                above = if __is__(min, None) { -> g } else { low = prim::unchecked_cast(min) -> masked_fill(g, (self > low) == 0, 0) }
                grad self = if __is__(max, None) { -> above } else { high = prim::unchecked_cast(max) -> masked_fill(above, (self < high) == 0, 0) }
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
];
