//! Rows of the operator table: conversions, fills, copies, and parts of complex numbers.

use super::Row;
use super::vocabulary::*;
use crate::ops::formulas::When;
use crate::tensor::DType;

/// No element type, layout, device or memory is given, nor another order of dimensions; 1.5 is the
/// first release that keeps that of the operand.
const LIKE: &[When] = &[Since(1, 5), Missing(1), Missing(2), Missing(3), Missing(4), Missing(5)];
/// The same, with `torch.preserve_format` given.
const PRESERVING: &[When] = &[Since(1, 5), Missing(1), Missing(2), Missing(3), Missing(4), Is(5, 1.0)];
/// The same, before 1.5.
const IN_A_ROW: &[When] = &[Before(1, 5), Missing(1), Missing(2), Missing(3), Missing(4), Missing(5)];
/// No other device and no copy is requested; the order of dimensions is that of the operand.
const CONVERTED: &[When] = &[Names(1), Is(3, 0.0), Missing(4)];
/// The same, with `torch.preserve_format` given.
const CONVERTED_PRESERVING: &[When] = &[Names(1), Is(3, 0.0), Is(4, 1.0)];
/// The same, to the type of another tensor.
const CONVERTED_LIKE: &[When] = &[Tensor(1), Is(3, 0.0), Missing(4)];
const CONVERTED_LIKE_PRESERVING: &[When] = &[Tensor(1), Is(3, 0.0), Is(4, 1.0)];

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::to",
        shape: Has(&[
            sized(S::Like, E::Same).with("dtype"),
            sized(S::Like, E::Second).with("other"),
            sized(S::Like, E::Same),
        ]),
        computation: Has(Formulas(&[
            all(Named(1), "a").when(CONVERTED),
            all(Named(1), "a").when(CONVERTED_PRESERVING),
            all(Like, "a").when(CONVERTED_LIKE),
            all(Like, "a").when(CONVERTED_LIKE_PRESERVING),
        ])),
        fusion: Has(&[fused(&["", "dtype", "prim_dtype", "other"]).level(2).like_first()]),
        gradient: Has(&[
            (
                ":device 1.3",
                "
                keep self_device = prim::device(self)
                keep self_dtype = prim::dtype(self)
                grad self = to(g, self_device, self_dtype, non_blocking, copy)
            ",
            ),
            (
                ".prim_Device 2",
                "
                keep self_device = prim::device(self)
                keep self_dtype = prim::dtype(self)
                grad self = to(g, self_device, self_dtype, non_blocking, copy)
            ",
            ),
            (
                ".dtype 1.3 +2",
                "
                keep self_dtype = prim::dtype(self)
                grad self = to(g, self_dtype, non_blocking, copy)
            ",
            ),
            (".other 1.3", "grad self = to(g, self, non_blocking, copy)"),
            (
                ".prim_dtype +2",
                "
                keep self_dtype = prim::dtype(self)
                grad self = to(g, self_dtype, non_blocking, copy)
            ",
            ),
            (
                ".device +1.3 +2",
                "
                keep self_device = prim::device(self)
                keep self_dtype = prim::dtype(self)
                grad self = to(g, self_device, self_dtype, non_blocking, copy)
            ",
            ),
        ]),
        guard: Has(kept().recorded(&["dtype", "dtype_layout", "prim_Device", "prim_dtype"])),
        accuracy: Has(units(2.0).moving()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: No(UNNAMED),
        operands: Has(drawn(&["tdffz", "ttffz"])),
    },
    Row {
        kind: "aten::type_as",
        shape: Has(&[sized(S::Like, E::Second).reported_as(SIZES)]),
        computation: Has(Formulas(&[all(Like, "a")])),
        fusion: Has(&[fused(PLAIN).like_first()]),
        gradient: Has(&[("1.3 2", "grad self = type_as(g, self)")]),
        guard: Has(redundant(WITH_NUMBERS).recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.alias(A::MayReturn(0)).linear(Linear::Cast, PLAIN, "past-casts")),
        python: No(UNNAMED),
        operands: Has(drawn(&["tt"])),
    },
    Row {
        kind: "aten::_cast_Byte",
        shape: Has(&[sized(S::Like, E::Named).reported_as(SIZES)]),
        computation: Has(Formulas(&[all(Cast(DType::Byte), "a")])),
        fusion: Has(&[unfused(PLAIN, UNFUSED)]),
        gradient: No(INTEGRAL),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::_cast_Char",
        shape: Has(&[sized(S::Like, E::Named).reported_as(SIZES)]),
        computation: Has(Formulas(&[all(Cast(DType::Char), "a")])),
        fusion: Has(&[unfused(PLAIN, UNFUSED)]),
        gradient: No(INTEGRAL),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::_cast_Short",
        shape: Has(&[sized(S::Like, E::Named).reported_as(SIZES)]),
        computation: Has(Formulas(&[all(Cast(DType::Short), "a")])),
        fusion: Has(&[unfused(PLAIN, UNFUSED)]),
        gradient: No(INTEGRAL),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::_cast_Int",
        shape: Has(&[sized(S::Like, E::Named).reported_as(SIZES)]),
        computation: Has(Formulas(&[all(Cast(DType::Int), "a")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: No(INTEGRAL),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(TORCH),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::_cast_Long",
        shape: Has(&[sized(S::Like, E::Named).reported_as(SIZES)]),
        computation: Has(Formulas(&[all(Cast(DType::Long), "a")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: No(INTEGRAL),
        guard: Has(redundant(WITH_NUMBERS)),
        accuracy: Has(exact()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(TORCH),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::_cast_Half",
        shape: Has(&[sized(S::Like, E::Named).reported_as(SIZES)]),
        computation: Has(Formulas(&[all(Cast(DType::Half), "a")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(TORCH),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::_cast_Float",
        shape: Has(&[sized(S::Like, E::Named).reported_as(SIZES)]),
        computation: Has(Formulas(&[all(Cast(DType::Float), "a")])),
        fusion: Has(&[fused(PLAIN)]),
        gradient: No(NO_FORMULA),
        guard: Has(redundant(WITH_NUMBERS).recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(TORCH),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::_cast_Double",
        shape: Has(&[sized(S::Like, E::Named).reported_as(SIZES)]),
        computation: Has(Formulas(&[all(Cast(DType::Double), "a")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(TORCH),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::zeros_like",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANKS).detached()]),
        computation: Has(Formulas(&[
            all(Kept, "a != a ? 0 : 0").when(LIKE),
            all(Kept, "a != a ? 0 : 0").when(PRESERVING),
            all(Kept, "a != a ? 0 : 0").when(IN_A_ROW).contiguous(),
        ])),
        fusion: Has(&[fused(PLAIN).level(2).fills()]),
        gradient: Has(&[("+1.3 +2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::ones_like",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANKS).detached()]),
        computation: Has(Formulas(&[
            all(Kept, "a != a ? 1 : 1").when(LIKE),
            all(Kept, "a != a ? 1 : 1").when(PRESERVING),
            all(Kept, "a != a ? 1 : 1").when(IN_A_ROW).contiguous(),
        ])),
        fusion: Has(&[fused(PLAIN).level(2).fills()]),
        gradient: Has(&[("1.3 none", ""), ("+2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::rand_like",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANKS).detached()]),
        computation: No("kernels draw its numbers"),
        fusion: Has(&[fused(PLAIN).like_first()]),
        gradient: Has(&[("1.3 none", ""), ("+2 none", "")]),
        guard: Has(redundant(but_for(&[]))),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.undrawn("its numbers are random")),
    },
    Row {
        kind: "aten::clone",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK)]),
        computation: No("it has no computation"),
        fusion: Has(&[unfused(PLAIN, "it has no computation")]),
        gradient: Has(&[("+1.3 +2 linear", "grad self = g")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.forwarding(true, true)),
    },
    Row {
        kind: "aten::fill",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.of_first()),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::zero",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::conj",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No("kernels have no complex arithmetic"),
        fusion: Has(&[unfused(PLAIN, "kernels have no complex arithmetic")]),
        gradient: Has(&[("+2 linear", "grad self = conj(g)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::conj_physical",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(UNFUSED),
        fusion: Has(&[unfused(PLAIN, UNFUSED)]),
        gradient: Has(&[("+2 linear", "grad self = conj(g)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::real",
        shape: Has(&[sized(S::Like, E::Parts)]),
        computation: No("kernels have no complex arithmetic"),
        fusion: Has(&[unfused(PLAIN, "kernels have no complex arithmetic")]),
        gradient: Has(&[("+2", "grad self = g"), ("+2 complex", "grad self = complex(g, zeros_like(g))")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::imag",
        shape: Has(&[sized(S::Like, E::Parts)]),
        computation: No("kernels have no complex arithmetic"),
        fusion: Has(&[unfused(PLAIN, "kernels have no complex arithmetic")]),
        gradient: Has(&[("+2 complex", "grad self = complex(zeros_like(g), g)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&["complex:2x3"])),
    },
    Row {
        kind: "aten::complex",
        shape: Has(&[sized(S::Broadcast, E::Complex)]),
        computation: No("kernels have no complex arithmetic"),
        fusion: Has(&[unfused(PLAIN, "kernels have no complex arithmetic")]),
        gradient: Has(&[(
            "+2 linear",
            "
                keep real_size = _size_if_not_equal(size(real), size(result))
                keep imag_size = _size_if_not_equal(size(imag), size(result))
                grad real = _grad_sum_to_size(real(g), real_size)
                grad imag = _grad_sum_to_size(imag(g), imag_size)
            ",
        )]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::polar",
        shape: Has(&[sized(S::Broadcast, E::Complex)]),
        computation: No("kernels have no complex arithmetic"),
        fusion: Has(&[unfused(PLAIN, "kernels have no complex arithmetic")]),
        gradient: Has(&[(
            "+2 linear",
            "
                keep abs_size = _size_if_not_equal(size(abs), size(result))
                keep angle_size = _size_if_not_equal(size(angle), size(result))
                turned = conj(g)
                grad abs = _grad_sum_to_size(real(turned * sgn(result)), abs_size)
                grad angle = _grad_sum_to_size(-imag(turned * result), angle_size)
            ",
        )]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
];
