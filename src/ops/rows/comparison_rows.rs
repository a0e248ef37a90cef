//! Rows of the operator table: comparisons, logic, and choices.

use super::Row;
use super::vocabulary::*;

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::eq",
        shape: Has(&[sized(S::Broadcast, E::Bool).reported_as(RUN).alone(RANK).detached()]),
        computation: Has(Formulas(&[all(Compared, "a == b")])),
        fusion: Has(&[fused(BOTH)]),
        gradient: Has(&[
            // These have no gradient.
            (".Scalar 1.3 2 none", ""),
            (".Tensor +1.3 +2 none", ""),
        ]),
        guard: Has(redundant(WITH_NUMBERS).recorded(BOTH)),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["to"])),
    },
    Row {
        kind: "aten::ne",
        shape: Has(&[sized(S::Broadcast, E::Bool).reported_as(RUN).alone(RANK).detached()]),
        computation: Has(Formulas(&[all(Compared, "a != b")])),
        fusion: Has(&[fused(BOTH)]),
        gradient: Has(&[(".Scalar 1.3 2 none", ""), (".Tensor +1.3 +2 none", "")]),
        guard: Has(redundant(WITH_NUMBERS).recorded(BOTH)),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["to"])),
    },
    Row {
        kind: "aten::lt",
        shape: Has(&[sized(S::Broadcast, E::Bool).reported_as(RUN).alone(RANK).detached()]),
        computation: Has(Formulas(&[all(Compared, "a < b")])),
        fusion: Has(&[fused(BOTH)]),
        gradient: Has(&[(".Scalar 1.3 2 none", ""), (".Tensor +1.3 +2 none", "")]),
        guard: Has(redundant(WITH_NUMBERS).recorded(BOTH)),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["to"])),
    },
    Row {
        kind: "aten::le",
        shape: Has(&[sized(S::Broadcast, E::Bool).reported_as(RUN).alone(RANK).detached()]),
        computation: Has(Formulas(&[all(Compared, "a <= b")])),
        fusion: Has(&[fused(BOTH)]),
        gradient: Has(&[(".Scalar 1.3 2 none", ""), (".Tensor +1.3 +2 none", "")]),
        guard: Has(redundant(WITH_NUMBERS).recorded(BOTH)),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["to"])),
    },
    Row {
        kind: "aten::gt",
        shape: Has(&[sized(S::Broadcast, E::Bool).reported_as(RUN).alone(RANK).detached()]),
        computation: Has(Formulas(&[all(Compared, "a > b")])),
        fusion: Has(&[fused(BOTH)]),
        gradient: Has(&[(".Scalar 1.3 2 none", ""), (".Tensor +1.3 +2 none", "")]),
        guard: Has(redundant(WITH_NUMBERS).recorded(BOTH)),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["to"])),
    },
    Row {
        kind: "aten::ge",
        shape: Has(&[sized(S::Broadcast, E::Bool).reported_as(RUN).alone(RANK).detached()]),
        computation: Has(Formulas(&[all(Compared, "a >= b")])),
        fusion: Has(&[fused(BOTH)]),
        gradient: Has(&[(".Scalar 1.3 2 none", ""), (".Tensor +1.3 +2 none", "")]),
        guard: Has(redundant(WITH_NUMBERS).recorded(BOTH)),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["to"])),
    },
    Row {
        kind: "aten::logical_and",
        shape: Has(&[sized(S::Broadcast, E::Bool).detached()]),
        computation: Has(Formulas(&[all(Compared, "(a != 0) & (b != 0)")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            // These have no gradient.
            ("+2 none", ""),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["tt"])),
    },
    Row {
        kind: "aten::logical_or",
        shape: Has(&[sized(S::Broadcast, E::Bool).detached()]),
        computation: Has(Formulas(&[all(Compared, "(a != 0) | (b != 0)")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["tt"])),
    },
    Row {
        kind: "aten::logical_xor",
        shape: Has(&[sized(S::Broadcast, E::Bool).detached()]),
        computation: Has(Formulas(&[all(Compared, "(a != 0) != (b != 0)")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+2 none", ""), ("+1.3 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["tt"])),
    },
    Row {
        kind: "aten::logical_not",
        shape: Has(&[sized(S::Like, E::Bool).detached()]),
        computation: Has(Formulas(&[all(Predicate, "a == 0")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+1.3 +2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::isnan",
        shape: Has(&[sized(S::Like, E::Bool).detached()]),
        computation: Has(Formulas(&[all(Predicate, "a != a")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+1.3 +2 none", "")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::isfinite",
        shape: Has(&[sized(S::Like, E::Bool).detached()]),
        computation: Has(Formulas(&[all(Predicate, "a == a").float("a - a == 0")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::isinf",
        shape: Has(&[sized(S::Like, E::Bool).detached()]),
        computation: Has(Formulas(&[all(Predicate, "a != a").float("(a == a) & (a - a != 0)")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::isposinf",
        shape: Has(&[sized(S::Like, E::Bool).detached()]),
        computation: Has(Formulas(&[all(Predicate, "a != a").float("(a - a != 0) & (a > 0)")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::isneginf",
        shape: Has(&[sized(S::Like, E::Bool).detached()]),
        computation: Has(Formulas(&[all(Predicate, "a != a").float("(a - a != 0) & (a < 0)")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::signbit",
        shape: Has(&[sized(S::Like, E::Bool).detached()]),
        computation: Has(Formulas(&[all(Predicate, "a < 0").float("signed(1.0, a) < 0")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::where",
        shape: Has(&[
            sized(S::Broadcast, E::Chosen).reported_as(RANKS).with("self"),
            sized(S::Unreported, E::Long).by_values("the result has one entry per non-zero element"),
        ]),
        computation: Has(Formulas(&[all(Chosen, "a ? b : c").when(&[FitsWide(1), FitsWide(2)])])),
        fusion: Has(&[fused(&["self"]), fused(&["ScalarOther", "ScalarSelf"]).level(2)]),
        gradient: Has(&[
            (
                ".self 1.3 2",
                "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g * type_as(condition, g), self_size)
                grad other = _grad_sum_to_size(g * type_as(bitwise_not(condition), g), other_size)
            ",
            ),
            (
                ".self +1.3 +2 eager",
                "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(masked_fill(g, condition == 0, 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(g, condition != 0, 0), other_size)
            ",
            ),
            (
                ".ScalarSelf +2",
                "
                keep other_size = _size_if_not_equal(size(other), size(result))
                grad other = _grad_sum_to_size(type_as(masked_fill(g, condition, 0), other), other_size)
            ",
            ),
            (
                ".ScalarOther +2",
                "
                keep self_size = _size_if_not_equal(size(self), size(result))
                grad self = _grad_sum_to_size(type_as(masked_fill(g, condition == 0, 0), self), self_size)
            ",
            ),
            (
                ".self +2 complex",
                "
                keep self_size, other_size = sizes(self, other, result)
                grad self = type_as(_grad_sum_to_size(g * type_as(condition, g), self_size), self)
                grad other = type_as(_grad_sum_to_size(g * type_as(bitwise_not(condition), g), other_size), other)
            ",
            ),
            (".Scalar +1.3 +2 none", ""),
        ]),
        guard: Has(redundant(WITH_NUMBERS).since_2().recorded(&["Scalar", "ScalarOther", "ScalarSelf", "self"])),
        accuracy: Has(exact()),
        python: Has(TORCH),
        operands: Has(drawn(&["btt", "boo"])),
    },
    Row {
        kind: "aten::_s_where",
        shape: Has(&[sized(S::Broadcast, E::Chosen)]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::masked_fill",
        shape: Has(&[sized(S::Broadcast, E::Same)]),
        computation: Has(Formulas(&[floats(Kept, "b ? c : a").when(&[Fits(2)]).in_a_row()])),
        fusion: Has(&[
            fused(&["Scalar"]).level(2),
            unfused(&["Tensor"], "its fill value may be out of range of the element type, which raises an exception"),
        ]),
        gradient: Has(&[
            (
                ".Scalar +1.3 +2",
                "
                keep self_size = _size_if_not_equal(size(self), size(result))
                grad self = _grad_sum_to_size(masked_fill(g, mask, 0), self_size)
            ",
            ),
            (
                ".Tensor +1.3 +2",
                "
                keep self_size = _size_if_not_equal(size(self), size(result))
                grad self = _grad_sum_to_size(masked_fill(g, mask, 0), self_size)
                grad value = sum(masked_fill(g, mask == 0, 0))
            ",
            ),
        ]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        python: Has(TORCH),
        operands: Has(drawn(&["tbn"])),
    },
    Row {
        kind: "aten::isclose",
        shape: Has(&[sized(S::Broadcast, E::Bool).detached()]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: Has(&[("+2 none", ""), ("+1.3 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::isreal",
        shape: Has(&[sized(S::Like, E::Bool).detached()]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: Has(&[("+2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::greater",
        shape: Has(&[sized(S::Broadcast, E::Bool).detached()]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: Has(&[(".Scalar +2 none", ""), (".Tensor +2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::greater_equal",
        shape: Has(&[sized(S::Broadcast, E::Bool).detached()]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: Has(&[(".Scalar +2 none", ""), (".Tensor +2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::less",
        shape: Has(&[sized(S::Broadcast, E::Bool).detached()]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: Has(&[(".Scalar +2 none", ""), (".Tensor +2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::less_equal",
        shape: Has(&[sized(S::Broadcast, E::Bool).detached()]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: Has(&[(".Scalar +2 none", ""), (".Tensor +2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::not_equal",
        shape: Has(&[sized(S::Broadcast, E::Bool).detached()]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: Has(&[(".Scalar +2 none", ""), (".Tensor +2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
];
