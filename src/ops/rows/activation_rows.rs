//! Rows of the operator table: activations.

use super::Row;
use super::vocabulary::*;

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::relu",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK)]),
        computation: Has(Formulas(&[
            // Since 1.9 it is a clamp, which keeps -0.0.
            numbers(Kept, "a <= 0 ? 0 : a").when(&[Before(1, 9)]),
            numbers(Kept, "a < 0 ? 0 : a").float("larger(a, 0.0)"),
        ])),
        fusion: Has(&[fused(PLAIN).epilogue(|_| Some(Function::Relu))]),
        gradient: Has(&[
            ("1.3 2", "grad self = g * type_as(result > 0, result)"),
            ("+1.3 +2 eager", "grad self = masked_fill(g, result <= 0, 0)"),
        ]),
        guard: Has(redundant(WITH_NUMBERS).recorded(PLAIN)),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(drawn(&["t"]).shaped(&["quint8:2x3"]).forwarding(true, false)),
    },
    Row {
        kind: "aten::relu6",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: Has(Formulas(&[floats(Kept, "a < 0 ? 0 : a > 6 ? 6 : a")])),
        fusion: Has(&[fused(PLAIN).level(2).epilogue(|_| Some(Function::Clamp(0.0, 6.0)))]),
        gradient: Has(&[
            ("2", "grad self = g * __and__(result > 0, result < 6.)"),
            ("+2 eager", "grad self = masked_fill(g, __or__(self <= 0, self >= 6.), 0)"),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(drawn(&["t"])),
    },
    Row {
        kind: "aten::threshold",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK)]),
        computation: Has(Formulas(&[numbers(Kept, "a <= b ? c : a").when(&[Held(1), Held(2), Fits(1), Fits(2)])])),
        fusion: Has(&[fused(PLAIN)]),
        gradient: Has(&[
            // PyTorch's formula lets the gradient through where an element equals the threshold;
            // eager mode does not.
            ("1.3 2", "grad self = g * type_as(self > threshold, self)"),
            ("+1.3 +2 eager", "grad self = masked_fill(g, self <= threshold, 0)"),
        ]),
        guard: Has(redundant(WITH_NUMBERS).recorded(PLAIN)),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["tnn"])),
    },
    Row {
        kind: "aten::hardtanh",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK)]),
        computation: Has(Formulas(&[
            floats(Kept, "a < b ? b : a > c ? c : a").or(&[(1, -1.0), (2, 1.0)]).when(&[Before(1, 5), Fits(1), Fits(2)]),
            floats(Kept, "smaller(larger(a, b), c)").or(&[(1, -1.0), (2, 1.0)]).when(&[Fits(1), Fits(2)]),
        ])),
        fusion: Has(&[fused(PLAIN).level(2).epilogue(clamped)]),
        gradient: Has(&[
            // PyTorch's formula lets the gradient through at the bounds; eager mode does not.
            ("+1.3 2", "
                mask = (self > min_val) * (self < max_val)
                grad self = g * mask
            "),
            ("+1.3 +2 eager", "grad self = masked_fill(g, __or__(self <= min_val, self >= max_val), 0)"),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(drawn(&["tnn"])),
    },
    Row {
        kind: "aten::leaky_relu",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK)]),
        computation: Has(Formulas(&[floats(Kept, "a > 0 ? a : a * b").or(&[(1, 0.01)]).when(&[FitsWide(1)])])),
        fusion: Has(&[fused(PLAIN).level(2).epilogue(sloped)]),
        gradient: Has(&[
            // PyTorch's formula rounds the slope to a float, for doubles too; eager mode does not.
            ("+1.3 2", "grad self = where(self > 0, g, g * negative_slope)"),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(drawn(&["rn"]).forwarding(true, false)),
    },
    Row {
        kind: "aten::hardshrink",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK)]),
        computation: Has(Formulas(&[
            // The bound is a number of the element type.
            floats(Kept, "(a >= -b) & (a <= b) ? 0 : a").factors(usize::MAX).or(&[(1, 0.5)]).when(&[Fits(1)]),
        ])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            ("2", "grad self = g * __or__(self > lambd, self < -lambd)"),
            ("+2 eager", "grad self = masked_fill(g, __and__(self >= -lambd, self <= lambd), 0)"),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["rn"])),
    },
    Row {
        kind: "aten::softshrink",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK)]),
        computation: Has(Formulas(&[
            // Before 2.6 a NaN is lost.
            floats(Kept, "a > b ? a - b : a < -b ? a + b : a != a ? a : 0") .factors(usize::MAX) .or(&[(1, 0.5)]) .when(&[Since(2, 6), From(1, 0.0), Fits(1)]),
        ])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            ("+1.3", "grad self = masked_fill(g, __or__(self > lambd, self < -lambd) == 0, 0)"),
            ("+2", "grad self = masked_fill(g, __and__(self >= -lambd, self <= lambd), 0)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["rn"])),
    },
    Row {
        kind: "aten::silu",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: Has(Formulas(&[floats(Kept, "silu(a)")])),
        fusion: Has(&[fused(PLAIN).level(2).epilogue(|_| Some(Function::Silu))]),
        gradient: Has(&[
            ("2", "
                input_sigmoid = sigmoid(self)
                grad self = g * (input_sigmoid * (1 + self * (1 - input_sigmoid)))
            "),
            ("+2 halves", "
                wide = AD_float(self)
                gate = sigmoid(wide)
                grad self = type_as(AD_float(g) * (gate * (1 + wide * (1 - gate))), self)
            "),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(4.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(drawn(&["r"]).forwarding(true, false)),
    },
    Row {
        kind: "aten::gelu",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK).since_2()]),
        computation: Has(Formulas(&[
            // `x Phi(x)`, computed from the complement to keep precision where it is small.
            floats(Kept, "0.5 * a * erfc(-0.7071067811865476 * a)").when(&[Missing(1)]),
            floats(Kept, "0.5 * a * erfc(-0.7071067811865476 * a)").when(&[Says(1, "none")]),
            // `(1 + tanh(u)) / 2` is the logistic function of `2u`; 1.5957... is `2 sqrt(2 / pi)`.
            floats(Kept, "a * sigmoid(1.5957691216057308 * fma(0.044715 * a, a * a, a))").when(&[Says(1, "tanh")]),
        ])),
        fusion: Has(&[fused(PLAIN).level(2).epilogue(approximated)]),
        gradient: Has(&[
            ("2", "grad self = gelu_backward(g, self, approximate=approximate)"),
            // Squares of large bfloat16 numbers are infinite in float, and the slope is NaN there.
            ("+2 halves", r#"
                grad self = if approximate == "tanh" {
                    wide = AD_float(self)
                    square = wide * wide
                    bent = tanh(0.7978845608028654 * (wide + 0.044715 * (square * wide)))
                    inner = 0.7978845608028654 * (1 + 0.134145 * square)
                    -> type_as(AD_float(g) * (0.5 * (1 + bent) + 0.5 * wide * (1 - bent * bent) * inner), self)
                } else {
                    -> gelu_backward(g, self, approximate=approximate)
                }
            "#),
            ("+1.3", "grad self = gelu_backward(g, self)"),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(4.0).subtracting()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["r"]).forwarding(true, false)),
    },
    Row {
        kind: "aten::softplus",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK)]),
        computation: Has(Formulas(&[floats(Kept, "a * b > c ? a : log1p(exp(a * b)) / b").or(&[(1, 1.0), (2, 20.0)]).when(&[FitsWide(1), FitsWide(2)])])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            // PyTorch's formula divides by the exponential of the result, which has few digits
            // below 0.
            ("2 until=1.9", "
                z = exp(self * beta)
                grad self = where(self * beta >= threshold, g, g * z / (z + 1.))
            "),
            ("2 from=1.9", "
                z = exp(self * beta)
                grad self = where(self * beta > threshold, g, g * z / (z + 1.))
            "),
            // The formula of PyTorch's graphs divides infinities by each other in its own gradient.
            ("+2 eager until=1.9", "grad self = where(self * beta >= threshold, g, g * sigmoid(self * beta))"),
            ("+2 eager from=1.9", "grad self = where(self * beta > threshold, g, g * sigmoid(self * beta))"),
            ("+2 halves from=1.9", "grad self = where(self * beta > threshold, g, g * sigmoid(self * beta))"),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(4.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["r"])),
    },
    Row {
        kind: "aten::hardsigmoid",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: Has(Formulas(&[floats(Kept, "(a + 3 < 0 ? 0 : a + 3 > 6 ? 6 : a + 3) / 6")])),
        fusion: Has(&[fused(PLAIN).level(2).epilogue(|_| Some(Function::Hardsigmoid))]),
        gradient: Has(&[
            ("2 until=1.6", "grad self = masked_fill(g * 0.16666666666666666, self != self, 0)"),
            ("2 from=1.6 until=1.8", "grad self = masked_fill(g * 0.16666666666666666, bitwise_not(__and__(self >= -3., self <= 3.)), 0)"),
            ("2 from=1.8", "
                m = __and__(self > -3., self < 3.)
                lhs = g * 0.16666666666666666
                grad self = where(m, lhs, type_as(m, self))
            "),
            // The factor 1/6 is a float, as in eager mode, for doubles too.
            ("+2 eager until=1.6", "grad self = masked_fill(g * 0.1666666716337204, self != self, 0)"),
            ("+2 eager from=1.6 until=1.8", "grad self = masked_fill(g * 0.1666666716337204, bitwise_not(__and__(self >= -3., self <= 3.)), 0)"),
            ("+2 eager from=1.8", "grad self = masked_fill(g * 0.1666666716337204, bitwise_not(__and__(self > -3., self < 3.)), 0)"),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(drawn(&["r"])),
    },
    Row {
        kind: "aten::hardswish",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK).since_2()]),
        computation: Has(Formulas(&[floats(Kept, "a * (a + 3 < 0 ? 0 : a + 3 > 6 ? 6 : a + 3) / 6")])),
        fusion: Has(&[fused(PLAIN).level(2).epilogue(|_| Some(Function::Hardswish))]),
        gradient: Has(&[
            ("2", "
                m = type_as(self >= 3., result)
                m = where(__and__(self > -3., self < 3.), self / 3. + 0.5, m)
                grad self = g * m
            "),
            ("+2 eager until=2.8", "
                inner = where(self <= 3., g * (self / 3. + 0.5), g)
                grad self = masked_fill(inner, self < -3., 0)
            "),
            ("+2 eager from=2.8", "
                inner = where(self < 3., g * (self / 3. + 0.5), g)
                grad self = masked_fill(inner, self <= -3., 0)
            "),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(drawn(&["r"])),
    },
    Row {
        kind: "aten::elu",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK)]),
        computation: Has(Formulas(&[floats(Kept, "(a > 0 ? a : b * expm1(a * d)) * c").or(&[(1, 1.0), (2, 1.0), (3, 1.0)]).when(&[FitsWide(1), FitsWide(2), FitsWide(3)])])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            ("+2", "grad self = elu_backward(g, alpha, scale, input_scale, False, self)"),
            // The gradient of 1.3 tests the sign of the result, which a negative scale flips.
            ("+1.3", "grad self = where(self <= 0, g * scale * alpha * input_scale * exp(self * input_scale), g * scale)"),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(drawn(&["r"])),
    },
    Row {
        kind: "aten::mish",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: Has(Formulas(&[floats(Kept, "a * tanh(log1p(exp(a)))")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            ("+2 halves", "
                wide = AD_float(self)
                bent = tanh(softplus(wide))
                grad self = type_as(AD_float(g) * (bent + wide * sigmoid(wide) * (1 - bent * bent)), self)
            "),
            ("+2", "
                bent = tanh(softplus(self))
                grad self = g * (bent + self * sigmoid(self) * (1 - bent * bent))
            "),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(drawn(&["r"])),
    },
    Row {
        kind: "aten::celu",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK)]),
        computation: Has(Formulas(&[floats(Kept, "a > 0 ? a : b * expm1(a * (1 / b))").or(&[(1, 1.0)]).when(&[IsNot(1, 0.0), FitsWide(1)])])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            ("+2", "grad self = elu_backward(g, alpha, 1., 1. / Float(alpha), False, self)"),
            ("+1.3", "grad self = where(self <= 0, g * exp(self / alpha), g)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(drawn(&["rn"]).called(&[
            "2x3 float:1.5",
            "2x3 int:2",
        ])),
    },
    Row {
        kind: "aten::selu",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK)]),
        computation: Has(Formulas(&[floats(Kept, "(a > 0 ? a : 1.6732632423543772 * expm1(a)) * 1.0507009873554805")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            ("+2", "grad self = elu_backward(g, 1.6732632423543772, 1.0507009873554805, 1., False, self)"),
            ("+1.3", "grad self = where(self <= 0, g * exp(self) * 1.7580993408473766, g * 1.0507009873554805)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(drawn(&["r"])),
    },
    Row {
        kind: "aten::log_sigmoid",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK)]),
        computation: Has(Formulas(&[floats(Kept, "(a < 0 ? a : 0) - log1p(exp(-absolute(a)))").contiguous().when(&[Since(1, 5)])])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            ("+2 halves from=1.11", "grad self = type_as(AD_float(g) * sigmoid(-AD_float(self)), self)"),
            // Up to 1.10 the exponential of minus infinity is subtracted from itself.
            ("+1.3 +2 until=1.11", "grad self = g * sigmoid(-self) + clamp_max(self, 0) * 0"),
            ("+2 from=1.11", "grad self = g * sigmoid(-self)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(drawn(&["r"])),
    },
    Row {
        kind: "aten::prelu",
        shape: Has(&[
            sized(S::Like, E::Same).reported_as(RANK),
            sized(S::Like, E::Same),
        ]),
        computation: No("its slopes are broadcast in another dimension than their own"),
        fusion: Has(&[unfused(PLAIN, "its slopes are broadcast in another dimension than their own")]),
        gradient: Has(&[("+1.3 +2", "
                slopes = if dim(self) == 0 { -> reshape(weight, size(self)) } else { -> AD_of_channels(weight, dim(self)) }
                grad self = where(self > 0, g, g * slopes)
                grad weight = reshape(_grad_sum_to_size(masked_fill(g * self, self >= 0, 0), size(slopes)), size(weight))
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "4x3x2 3",
            "4x3 1",
            "4 scalar",
        ])),
    },
    Row {
        kind: "aten::rrelu",
        shape: Has(&[sized(S::Like, E::Same).reported_as(RANK)]),
        computation: No(UNFUSED),
        fusion: Has(&[unfused(PLAIN, UNFUSED)]),
        gradient: Has(&[
            // The random slopes are the ratio of the result to the operand.
            ("+1.3 +2", "
                middle = (Float(lower) + Float(upper)) / 2.
                share = if training { -> g * masked_fill(result / self, self == 0, middle) } else { -> g * middle }
                grad self = where(self > 0, g, share)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "2x3 float:0.25 float:0.5 no none",
            "2x3 float:0.25 float:0.5 yes none",
        ])),
    },
];
