//! Rows of the operator table: arithmetic of several operands.

use super::Row;
use super::vocabulary::*;
use crate::tensor::DType;

/// `log(e^a + e^b)`: for equal infinities it is that infinity.
const LOGADDEXP: &str = "(a == b) & (a - a != 0) ? a : larger(a, b) + log1p(exp(-absolute(a - b)))";
const LOGADDEXP2: &str =
    "(a == b) & (a - a != 0) ? a : larger(a, b) + log1p(pow(2.0, -absolute(a - b))) * 1.4426950408889634";
/// NaN is tested first, then 0.
const XLOGY: &str = "b != b ? b : a == 0 ? 0 : a * log(b)";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::add",
        shape: Has(&[sized(S::Broadcast, E::Promoted).reported_as(RUN).alone(SIZES)]),
        computation: Has(Formulas(&[
            all(Promoted(2), "a + b").when(&[Missing(2)]),
            all(Promoted(2), "a + b").when(&[Is(2, 1.0), Scales(2)]),
            // Eager mode's vector code rounds a product with `alpha` once, together with the sum.
            all(Promoted(2), "a + b * c").float("fma(b, c, a)").when(&[Scales(2)]),
        ])),
        fusion: Has(&[fused(BOTH)]),
        gradient: Has(&[
            (".Tensor 1.3 2", "
                keep self_size, other_size = sizes(self, other, result)
                grad other = _grad_sum_to_size(g * alpha, other_size)
                grad self = _grad_sum_to_size(g, self_size)
            "),
            (".Scalar 1.3 2", "grad self = g"),
            (".Tensor +2 complex", "
                keep self_size, other_size = sizes(self, other, result)
                grad other = type_as(_grad_sum_to_size(conj(conj(g) * alpha), other_size), other)
                grad self = type_as(_grad_sum_to_size(g, self_size), self)
            "),
            (".Scalar +2 complex", "grad self = type_as(g, self)"),
        ]),
        guard: Has(redundant(WITH_NUMBERS).recorded(BOTH)),
        accuracy: Has(units(1.0)),
        semantics: Has(DECLARED.total_of_numbers().linear(Linear::Both, &["Tensor"], "past-sums")),
        python: Has(TORCH),
        operands: Has(drawn(&["to1", "tt1"]).forwarding(true, true)),
    },
    Row {
        kind: "aten::sub",
        shape: Has(&[sized(S::Broadcast, E::Promoted).reported_as(RUN).alone(SIZES)]),
        computation: Has(Formulas(&[
            numbers(Promoted(2), "a - b").when(&[Missing(2)]),
            numbers(Promoted(2), "a - b").when(&[Is(2, 1.0), Scales(2)]),
            numbers(Promoted(2), "a - b * c").float("fma(b, -c, a)").when(&[Scales(2)]),
        ])),
        fusion: Has(&[fused(BOTH)]),
        gradient: Has(&[
            (".Scalar 1.3 2", "grad self = g"),
            (".Tensor 1.3 2", "
                keep self_size, other_size = sizes(self, other, result)
                grad other = _grad_sum_to_size(-g * alpha, other_size)
                grad self = _grad_sum_to_size(g, self_size)
            "),
            (".Tensor +2 complex", "
                keep self_size, other_size = sizes(self, other, result)
                grad other = type_as(_grad_sum_to_size(-conj(conj(g) * alpha), other_size), other)
                grad self = type_as(_grad_sum_to_size(g, self_size), self)
            "),
            (".Scalar +2 complex", "grad self = type_as(g, self)"),
        ]),
        guard: Has(redundant(WITH_NUMBERS).recorded(BOTH)),
        accuracy: Has(units(1.0)),
        semantics: Has(DECLARED.total_of_numbers().linear(Linear::Both, &["Tensor"], "past-sums")),
        python: Has(TORCH),
        operands: Has(drawn(&["to1"]).forwarding(true, true)),
    },
    Row {
        kind: "aten::rsub",
        shape: Has(&[sized(S::Broadcast, E::Promoted)]),
        computation: Has(Formulas(&[numbers(Promoted(2), "b - a * c").float("fma(a, -c, b)").or(&[(2, 1.0)]).when(&[Scales(2)])])),
        fusion: Has(&[fused(BOTH).level(2)]),
        gradient: Has(&[
            (".Scalar 1.3 2", "grad self = -g * alpha"),
            (".Tensor +1.3 +2", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(-g * alpha, self_size)
                grad other = _grad_sum_to_size(g, other_size)
            "),
            (".Tensor +2 complex", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = type_as(_grad_sum_to_size(-conj(conj(g) * alpha), self_size), self)
                grad other = type_as(_grad_sum_to_size(g, other_size), other)
            "),
            (".Scalar +2 complex", "grad self = type_as(-conj(conj(g) * alpha), self)"),
        ]),
        guard: Has(kept().recorded(&["Scalar"])),
        accuracy: Has(units(1.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["tn1"])),
    },
    Row {
        kind: "aten::mul",
        shape: Has(&[sized(S::Broadcast, E::Promoted).reported_as(RUN).alone(SIZES)]),
        computation: Has(Formulas(&[all(Promoted(2), "a * b").factors(1)])),
        fusion: Has(&[fused(BOTH)]),
        gradient: Has(&[
            (".Tensor 1.3 2", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g * other, self_size)
                grad other = _grad_sum_to_size(g * self, other_size)
            "),
            (".Scalar 1.3 2", "grad self = g * other"),
            (".Tensor +2 complex", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = type_as(_grad_sum_to_size(g * conj(other), self_size), self)
                grad other = type_as(_grad_sum_to_size(g * conj(self), other_size), other)
            "),
            (".Scalar +2 complex", "grad self = type_as(conj(conj(g) * other), self)"),
        ]),
        guard: Has(redundant(WITH_NUMBERS).recorded(BOTH)),
        accuracy: Has(units(1.0)),
        semantics: Has(DECLARED.total_of_numbers().linear(Linear::EachFactor, BOTH, "past-products")),
        python: Has(TORCH),
        operands: Has(drawn(&["to", "tt"]).forwarding(true, false)),
    },
    Row {
        kind: "aten::div",
        shape: Has(&[sized(S::Broadcast, E::Divided).reported_as(RUN).alone(SIZES)]),
        computation: Has(Formulas(&[
            floats(Promoted(2), "a / b").factors(1).when(&[Missing(2), Before(1, 6)]),
            floats(FloatPromoted(2), "a / b").factors(1).when(&[Missing(2)]),
            floats(Promoted(2), "floor_quotient(a, b)") .integer("quotient_down(a, b)") .factors(1) .when(&[Says(2, "floor"), Since(1, 8), Divides(1)]),
            // For 16-bit floats eager mode rounds the quotient first, unless the divisor is a
            // number.
            floats(Promoted(2), "trunc(a / b)").when(&[Says(2, "trunc"), Since(1, 8), OfFloats, OfOneType(2), Wide]),
            floats(Promoted(2), "trunc(a / b)").factors(1).when(&[Says(2, "trunc"), Since(1, 8), OfFloats, IsNumber(1)]),
            integers(Promoted(2), "quotient(a, b)").when(&[Says(2, "trunc"), Since(1, 8), Divides(1)]),
        ])),
        fusion: Has(&[
            fused(BOTH),
            fused(&["Tensor_mode", "Scalar_mode"]).level(2),
        ]),
        gradient: Has(&[
            (".Tensor 1.3 2", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g / other, self_size)
                grad other = _grad_sum_to_size(-g * self / (other * other), other_size)
            "),
            (".Scalar 1.3 2", "grad self = g / other"),
            (".Tensor_mode 2", "
                keep self_size, other_size = sizes(self, other, result)
                grad_self, grad_other = if __is__(rounding_mode, None) {
                    -> _grad_sum_to_size(g / other, self_size), _grad_sum_to_size(-g * self / (other * other), other_size)
                } else {
                    -> zeros_like(self), zeros_like(other)
                }
                grad self = grad_self
                grad other = grad_other
            "),
            (".Scalar_mode 2", "
                grad_self = if __is__(rounding_mode, None) { -> g / other } else { -> zeros_like(self, memory_format=1) }
                grad self = grad_self
            "),
            (".Tensor +2 halves", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g / other, self_size)
                grad other = _grad_sum_to_size(-g * ((self / other) / other), other_size)
            "),
            (".Tensor_mode +2 halves", "
                keep self_size, other_size = sizes(self, other, result)
                grad_self, grad_other = if __is__(rounding_mode, None) {
                    -> _grad_sum_to_size(g / other, self_size), _grad_sum_to_size(-g * ((self / other) / other), other_size)
                } else {
                    -> zeros_like(self), zeros_like(other)
                }
                grad self = grad_self
                grad other = grad_other
            "),
            (".Tensor +2 complex", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = type_as(_grad_sum_to_size(g / conj(other), self_size), self)
                grad other = type_as(_grad_sum_to_size(-g * conj((self / other) / other), other_size), other)
            "),
            (".Scalar +2 complex", "grad self = type_as(conj(conj(g) / other), self)"),
        ]),
        guard: Has(redundant(WITH_NUMBERS).recorded(&["Scalar", "Scalar_mode", "Tensor", "Tensor_mode"])),
        accuracy: Has(units(1.0)),
        semantics: Has(DECLARED.linear(Linear::First, BOTH, "past-quotients")),
        python: Has(TORCH),
        operands: Has(drawn(&["to"]).forwarding(true, false)),
    },
    Row {
        kind: "aten::true_divide",
        shape: Has(&[sized(S::Broadcast, E::Angle).reported_as(RUN).alone(SIZES)]),
        computation: Has(Formulas(&[floats(FloatPromoted(2), "a / b").factors(1)])),
        fusion: Has(&[unfused(BOTH, UNFUSED)]),
        gradient: Has(&[
            (".Tensor +2 halves", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g / other, self_size)
                grad other = _grad_sum_to_size(-g * ((self / other) / other), other_size)
            "),
            (".Tensor +2", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g / other, self_size)
                grad other = _grad_sum_to_size(-g * self / (other * other), other_size)
            "),
            (".Scalar +2", "grad self = g / other"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.linear(Linear::First, BOTH, "past-quotients")),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::floor_divide",
        shape: Has(&[sized(S::Broadcast, E::Promoted)]),
        computation: Has(Formulas(&[
            floats(Promoted(2), "floor_quotient(a, b)") .integer("quotient_down(a, b)") .factors(1) .when(&[Since(1, 13), Divides(1)]),
            integers(Promoted(2), "quotient(a, b)").when(&[Before(1, 13), Divides(1)]),
        ])),
        fusion: Has(&[fused(&["", "Scalar"]).level(2)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["to"])),
    },
    Row {
        kind: "aten::remainder",
        shape: Has(&[sized(S::Broadcast, E::Settled).reported_as(RANKS).alone(RANK)]),
        computation: Has(Formulas(&[floats(Promoted(2), "remainder(a, b)").integer("rest_up(a, b)").when(&[Divides(1)])])),
        fusion: Has(&[
            fused(&["Tensor"]),
            fused(&["Scalar"]).level(2),
            unfused(&["Scalar_Tensor"], "its dividend, a number, cannot be an operand of a kernel"),
        ]),
        gradient: Has(&[
            (".Scalar 1.3 2", "grad self = g"),
            (".Tensor +2", r#"
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g, self_size)
                grad other = _grad_sum_to_size(-g * div(self, other, rounding_mode="floor"), other_size)
            "#),
        ]),
        guard: Has(redundant(WITH_NUMBERS).recorded(BOTH)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["to"]).forwarding(true, true)),
    },
    Row {
        kind: "aten::fmod",
        shape: Has(&[sized(S::Broadcast, E::Settled).reported_as(RANKS).alone(RANK)]),
        computation: Has(Formulas(&[floats(Promoted(2), "fmod(a, b)").integer("rest(a, b)").when(&[Divides(1)])])),
        fusion: Has(&[
            fused(&["Tensor"]),
            fused(&["Scalar"]).level(2),
        ]),
        gradient: Has(&[
            (".Scalar 1.3 2", "grad self = g"),
            (".Tensor +2", r#"
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g, self_size)
                grad other = _grad_sum_to_size(-g * div(self, other, rounding_mode="trunc"), other_size)
            "#),
        ]),
        guard: Has(redundant(WITH_NUMBERS).recorded(BOTH)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["tn"])),
    },
    Row {
        kind: "aten::pow",
        shape: Has(&[sized(S::Broadcast, E::Settled).reported_as(RUN).alone(SIZES)]),
        computation: Has(Formulas(&[
            all(Promoted(2), "a * a").when(&[Is(1, 2.0)]),
            // The power of -0.0, and that of minus infinity, equal those of the square root; `Half`
            // uses `pow`.
            floats(Promoted(2), "sqrt(a)").when(&[Is(1, 0.5), IsNotOf(DType::Half)]),
            floats(Promoted(2), "rsqrt(a)").when(&[Is(1, -0.5), IsNotOf(DType::Half)]),
            floats(Promoted(2), "pow(a, b)").integer("raised(a, b)").when(&[Since(1, 6), IsNumber(0), Natural(1)]).contiguous(),
            floats(Promoted(2), "b == 0.5 ? sqrt(a) : b == -0.5 ? rsqrt(a) : pow(a, b)").integer("raised(a, b)").when(&[Since(1, 6), IsNumber(1), IsNotOf(DType::Half), Fits(1), Natural(1)]),
            floats(Promoted(2), "b == 0.5 ? sqrt(a) : b == -0.5 ? rsqrt(a) : pow(a, b)").when(&[Before(1, 6), IsNumber(1), IsNotOf(DType::Half), Fits(1)]),
            floats(Promoted(2), "pow(a, b)").integer("raised(a, b)").when(&[Since(1, 6), Fits(1), Natural(1)]),
            floats(Promoted(2), "pow(a, b)").when(&[Before(1, 6), Fits(1)]),
        ])),
        fusion: Has(&[fused(&["Tensor_Tensor", "Tensor_Scalar", "Scalar"])]),
        gradient: Has(&[
            (".Tensor_Scalar 1.3", "
                grad_self = if Float(exponent) == 0. { -> zeros_like(self) } else { -> g * exponent * pow(self, Float(exponent) - 1) }
                grad self = grad_self
            "),
            (".Tensor_Scalar 2", "
                grad_self = if Float(exponent) == 0. { -> zeros_like(self, memory_format=1) } else { -> g * exponent * pow(self, Float(exponent) - 1) }
                grad self = grad_self
            "),
            // PyTorch's formula takes the logarithm of base 0, as eager mode does up to 1.4; later
            // eager mode gives 0 there, for exponents that are not negative.
            (".Tensor_Tensor 1.3", "
                keep self_size = _size_if_not_equal(size(self), size(result))
                keep exponent_size = _size_if_not_equal(size(exponent), size(result))
                grad self = _grad_sum_to_size(masked_fill(g * exponent * pow(self, exponent - 1), exponent == 0., 0.), self_size)
                grad exponent = _grad_sum_to_size(g * result * log(self), exponent_size)
            "),
            (".Tensor_Tensor 2", "
                keep self_size = _size_if_not_equal(size(self), size(result))
                keep exponent_size = _size_if_not_equal(size(exponent), size(result))
                grad self = _grad_sum_to_size(masked_fill(g * exponent * pow(self, exponent - 1), exponent == 0., 0.), self_size)
                flat = type_as(self == 0., g) * type_as(exponent >= 0., g)
                grad exponent = _grad_sum_to_size(masked_fill(g * result * log(self), flat == 1., 0.), exponent_size)
            "),
            (".Scalar 1.3", "grad exponent = g * result * log(Float(self))"),
            (".Scalar 2", "
                base = Float(self)
                grad exponent = if base == 0. {
                    -> masked_fill(g * result * log(base), exponent >= 0., 0.)
                } else {
                    -> g * result * log(base)
                }
            "),
            // PyTorch's formula takes the logarithm in the type of the base, which eager mode
            // promotes.
            (".Tensor_Tensor +2 eager", "
                keep self_size = _size_if_not_equal(size(self), size(result))
                keep exponent_size = _size_if_not_equal(size(exponent), size(result))
                grad self = _grad_sum_to_size(masked_fill(g * exponent * pow(self, exponent - 1), exponent == 0., 0.), self_size)
                flat = __and__(self == 0., exponent >= 0.)
                grad exponent = _grad_sum_to_size(masked_fill(g * result * log(type_as(self, result)), flat, 0.), exponent_size)
            "),
            (".Tensor_Scalar +2 halves", "
                grad_self = if Float(exponent) == 0. { -> zeros_like(self, memory_format=1) } else { -> g * (pow(self, Float(exponent) - 1) * exponent) }
                grad self = grad_self
            "),
            (".Scalar +2 halves", "
                base = Float(self)
                grad exponent = if base == 0. {
                    -> g * masked_fill(result * log(base), exponent >= 0., 0.)
                } else {
                    -> g * (result * log(base))
                }
            "),
            (".Tensor_Tensor +2 halves", "
                keep self_size = _size_if_not_equal(size(self), size(result))
                keep exponent_size = _size_if_not_equal(size(exponent), size(result))
                grad self = _grad_sum_to_size(masked_fill(g * (exponent * pow(self, exponent - 1)), exponent == 0., 0.), self_size)
                flat = __and__(self == 0., exponent >= 0.)
                grad exponent = _grad_sum_to_size(g * masked_fill(result * log(type_as(self, result)), flat, 0.), exponent_size)
            "),
        ]),
        guard: Has(redundant(WITH_NUMBERS).recorded(&["Scalar", "Tensor_Scalar", "Tensor_Tensor"])),
        accuracy: Has(units(4.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["tn", "tt"]).called(&[
            "2x3 2x3",
            "2x3 float:2.5",
            "2x3 int:3",
            "float:1.5 2x3",
        ])),
    },
    Row {
        kind: "aten::float_power",
        shape: Has(&[sized(S::Broadcast, E::Power)]),
        computation: Has(Formulas(&[
            floats(Cast(DType::Double), "a * a").when(&[Is(1, 2.0)]),
            floats(Cast(DType::Double), "sqrt(a)").when(&[Is(1, 0.5)]),
            floats(Cast(DType::Double), "rsqrt(a)").when(&[Is(1, -0.5)]),
            all(Cast(DType::Double), "pow(a, b)"),
        ])),
        fusion: Has(&[fused(&["Tensor_Tensor", "Tensor_Scalar", "Scalar"]).level(2)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["tn"])),
    },
    Row {
        kind: "aten::atan2",
        shape: Has(&[sized(S::Broadcast, E::Angle).reported_as(RANKS)]),
        computation: Has(Formulas(&[floats(FloatPromoted(2), "atan2(a, b)")])),
        fusion: Has(&[fused(PLAIN)]),
        gradient: Has(&[
            ("+1.3 +2 until=2.10", "
                keep self_size = _size_if_not_equal(size(self), size(result))
                keep other_size = _size_if_not_equal(size(other), size(result))
                inverse = reciprocal(self * self + other * other)
                grad self = _grad_sum_to_size(g * other * inverse, self_size)
                grad other = _grad_sum_to_size(g * -self * inverse, other_size)
            "),
            ("+2 from=2.10", "
                keep self_size = _size_if_not_equal(size(self), size(result))
                keep other_size = _size_if_not_equal(size(other), size(result))
                square = self * self + other * other
                inverse = masked_fill(reciprocal(square), square == 0, 0)
                grad self = _grad_sum_to_size(g * other * inverse, self_size)
                grad other = _grad_sum_to_size(g * -self * inverse, other_size)
            "),
        ]),
        guard: Has(redundant(WITH_NUMBERS).recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["tt"])),
    },
    Row {
        kind: "aten::hypot",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[floats(Promoted(2), "hypot(a, b)")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+2", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g * self / result, self_size)
                grad other = _grad_sum_to_size(g * other / result, other_size)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["rr"])),
    },
    Row {
        kind: "aten::copysign",
        shape: Has(&[sized(S::Broadcast, E::Angle)]),
        computation: Has(Formulas(&[floats(FloatPromoted(2), "signed(a, b)")])),
        fusion: Has(&[fused(BOTH).level(2)]),
        gradient: Has(&[
            (".Tensor +2", "grad self = _grad_sum_to_size(g * masked_fill(result / self, self == 0, 0), size(self))"),
            (".Scalar +2", "grad self = g * masked_fill(result / self, self == 0, 0)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["to"])),
    },
    Row {
        kind: "aten::logaddexp",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[floats(Promoted(2), LOGADDEXP)])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+2", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g / (1 + exp(other - self)), self_size)
                grad other = _grad_sum_to_size(g / (1 + exp(self - other)), other_size)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["rr"])),
    },
    Row {
        kind: "aten::logaddexp2",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[floats(Promoted(2), LOGADDEXP2)])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+2", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g / (1 + exp2(other - self)), self_size)
                grad other = _grad_sum_to_size(g / (1 + exp2(self - other)), other_size)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["rr"])),
    },
    Row {
        kind: "aten::xlogy",
        shape: Has(&[sized(S::Broadcast, E::Angle)]),
        computation: Has(Formulas(&[floats(FloatPromoted(2), XLOGY)])),
        fusion: Has(&[fused(&["Tensor", "Scalar_Self", "Scalar_Other"]).level(2)]),
        gradient: Has(&[
            (".Tensor +2 until=1.10", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g * masked_fill(log(other), self == 0, 0), self_size)
                grad other = _grad_sum_to_size(g * self / other, other_size)
            "),
            (".Tensor +2 from=1.10 until=1.13", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g * masked_fill(log(other), self == 0, 0), self_size)
                grad other = _grad_sum_to_size(masked_fill(g * self / other, __and__(self == 0, other <= 0), 0), other_size)
            "),
            (".Tensor +2 from=1.13", "
                keep self_size, other_size = sizes(self, other, result)
                logs = masked_fill(log(other), __and__(self == 0, other <= 0), 0)
                grad self = _grad_sum_to_size(g * logs, self_size)
                grad other = _grad_sum_to_size(g * self / other, other_size)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["to"])),
    },
    Row {
        kind: "aten::heaviside",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[all(Promoted(2), "a == 0 ? b : a > 0").when(&[OfOneType(2)])])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["t="])),
    },
    Row {
        kind: "aten::addcmul",
        shape: Has(&[sized(S::Broadcast, E::Settled).reported_as(RANKS).alone(RANK)]),
        computation: Has(Formulas(&[numbers(Promoted(3), "a + d * b * c").float("fma(d * b, c, a)").factors(3).or(&[(3, 1.0)]).when(&[FitsWide(3)])])),
        fusion: Has(&[fused(PLAIN)]),
        gradient: Has(&[("1.3 2", "
                keep self_size = _size_if_not_equal(size(self), size(result))
                keep tensor1_size = _size_if_not_equal(size(tensor1), size(result))
                keep tensor2_size = _size_if_not_equal(size(tensor2), size(result))
                scaled = g * value
                grad tensor1 = _grad_sum_to_size(scaled * tensor2, tensor1_size)
                grad tensor2 = _grad_sum_to_size(scaled * tensor1, tensor2_size)
                grad self = _grad_sum_to_size(g, self_size)
            ")]),
        guard: Has(redundant(WITH_NUMBERS).recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["ttt1"])),
    },
    Row {
        kind: "aten::addcdiv",
        shape: Has(&[sized(S::Broadcast, E::Settled).reported_as(RANKS).alone(RANK)]),
        computation: Has(Formulas(&[floats(Promoted(3), "a + d * b / c").factors(3).or(&[(3, 1.0)]).when(&[FitsWide(3)])])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+1.3 +2", "
                keep self_size = _size_if_not_equal(size(self), size(result))
                keep tensor1_size = _size_if_not_equal(size(tensor1), size(result))
                keep tensor2_size = _size_if_not_equal(size(tensor2), size(result))
                scaled = g * value
                grad tensor1 = _grad_sum_to_size(scaled / tensor2, tensor1_size)
                grad tensor2 = _grad_sum_to_size(-scaled * tensor1 / (tensor2 * tensor2), tensor2_size)
                grad self = _grad_sum_to_size(g, self_size)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["rrr1"])),
    },
    Row {
        kind: "aten::lerp",
        shape: Has(&[sized(S::Broadcast, E::Common).reported_as(RANKS)]),
        computation: Has(Formulas(&[floats(Kept, "absolute(c) < 0.5 ? fma(c, b - a, a) : fma(c - 1, b - a, b)").when(&[OfOneType(3), FitsWide(2)])])),
        fusion: Has(&[fused(BOTH)]),
        gradient: Has(&[
            (".Scalar 1.3 2", "
                keep self_size = _size_if_not_equal(size(self), size(result))
                keep end_size = _size_if_not_equal(size(end), size(result))
                grad self = _grad_sum_to_size(g * (1 - Float(weight)), self_size)
                grad end = _grad_sum_to_size(g * Float(weight), end_size)
            "),
            (".Tensor 1.3 2", "
                keep self_size = _size_if_not_equal(size(self), size(result))
                keep end_size = _size_if_not_equal(size(end), size(result))
                keep weight_size = _size_if_not_equal(size(weight), size(result))
                grad self = _grad_sum_to_size(g * (1 - weight), self_size)
                grad end = _grad_sum_to_size(g * weight, end_size)
                grad weight = _grad_sum_to_size(g * (end - self), weight_size)
            "),
        ]),
        guard: Has(redundant(WITH_NUMBERS).recorded(BOTH)),
        accuracy: Has(units(2.0).subtracting()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["rrn"])),
    },
    Row {
        kind: "aten::nextafter",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: No(UNKNOWN),
        fusion: Has(&[unfused(PLAIN, UNKNOWN)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::ldexp",
        shape: Has(&[sized(S::Broadcast, E::Angle)]),
        computation: No(UNKNOWN),
        fusion: Has(&[unfused(&["Tensor"], UNKNOWN)]),
        gradient: Has(&[(".Tensor +2", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g * pow(2., other), self_size)
                grad other = _grad_sum_to_size(g * result * 0.6931471805599453, other_size)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::special_zeta",
        shape: Has(&[sized(S::Broadcast, E::Angle)]),
        computation: No(UNKNOWN),
        fusion: Has(&[unfused(&["", "other_scalar", "self_scalar"], UNKNOWN)]),
        gradient: Has(&[(".self_scalar +2", "grad other = g * special_zeta(self + 1, other) * -self")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::subtract",
        shape: Has(&[sized(S::Broadcast, E::Promoted)]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: Has(&[
            (".Tensor +2", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g, self_size)
                grad other = _grad_sum_to_size(-g * alpha, other_size)
            "),
            (".Scalar +2", "grad self = g"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::multiply",
        shape: Has(&[sized(S::Broadcast, E::Promoted)]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: Has(&[
            // Aliases.
            (".Tensor +2", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g * other, self_size)
                grad other = _grad_sum_to_size(g * self, other_size)
            "),
            (".Scalar +2", "grad self = g * other"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::divide",
        shape: Has(&[sized(S::Broadcast, E::Divided)]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: Has(&[
            (".Tensor +2 halves", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g / other, self_size)
                grad other = _grad_sum_to_size(-g * ((self / other) / other), other_size)
            "),
            (".Tensor +2", "
                keep self_size, other_size = sizes(self, other, result)
                grad self = _grad_sum_to_size(g / other, self_size)
                grad other = _grad_sum_to_size(-g * self / (other * other), other_size)
            "),
            (".Scalar +2", "grad self = g / other"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::arctan2",
        shape: Has(&[sized(S::Broadcast, E::Angle)]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::special_xlogy",
        shape: Has(&[
            sized(S::Broadcast, E::Angle),
            sized(S::Broadcast, E::Settled),
        ]),
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
        kind: "aten::_add_relu",
        shape: Has(&[sized(S::Broadcast, E::Promoted)]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::igamma",
        shape: No("nothing infers it yet, as nothing runs it"),
        computation: No(UNKNOWN),
        fusion: Has(&[unfused(PLAIN, UNKNOWN)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::igammac",
        shape: No("nothing infers it yet, as nothing runs it"),
        computation: No(UNKNOWN),
        fusion: Has(&[unfused(PLAIN, UNKNOWN)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::special_xlog1py",
        shape: Has(&[sized(S::Broadcast, E::Angle)]),
        // NaN is tested first, then 0, as in `xlogy`.
        computation: Has(Formulas(&[floats(FloatPromoted(2), "b != b ? b : a == 0 ? 0 : a * log1p(b)")])),
        fusion: Has(&[fused(&["", "self_scalar", "other_scalar"]).level(2)]),
        gradient: Has(&[
            ("+2", "
                keep self_size, other_size = sizes(self, other, result)
                logs = masked_fill(log1p(other), __and__(self == 0, other <= -1), 0)
                grad self = _grad_sum_to_size(g * logs, self_size)
                grad other = _grad_sum_to_size(g * self / (other + 1), other_size)
            "),
            (".other_scalar +2", "
                bound = zeros_like(self) + other
                grad self = g * masked_fill(log1p(bound), __and__(self == 0, bound <= -1), 0)
            "),
            (".self_scalar +2", "grad other = g * self / (other + 1)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(drawn(&["to"])),
    },
    Row {
        kind: "aten::special_chebyshev_polynomial_t",
        // Integers become floats, and the degree is truncated.
        shape: Has(&[sized(S::Broadcast, E::Angle).detached()]),
        computation: No("the number of steps is the degree, an operand"),
        fusion: Has(&[unfused(&["", "x_scalar", "n_scalar"], UNKNOWN)]),
        gradient: Has(&[("+2 none", ""), (".x_scalar +2 none", ""), (".n_scalar +2 none", "")]),
        guard: No(STAYS),
        // The cosine of 7 angles, which eager mode computes in floats, is 0.4999996 at 0.5.
        accuracy: Has(units(8.0).subtracting()),
        semantics: No(AS_DECLARED),
        python: No("programs spell it as a function of `torch.special`"),
        operands: Has(GENERATED),
    },
];
