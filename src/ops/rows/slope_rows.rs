//! Rows of the operator table: gradients of activations, as operators of backward graphs.

use super::Row;
use super::vocabulary::*;

/// The gradient is 0 where the operator returns 0, and at NaN, too; the bound is a number of the
/// element type.
const SHRINK_BACKWARD: &str = "(b >= -c) & (b <= c) ? 0 : a";
/// The normal distribution up to `b`, and `b` times its density there.
const GELU_BACKWARD: &str = "a * (0.5 * erfc(-0.7071067811865476 * b) + b * (exp(-0.5 * b * b) * 0.3989422804014327))";
/// `s + b s' u'`, where `s` is the logistic function of `2u`.
const GELU_TANH_BACKWARD: &str = "a * (sigmoid(1.5957691216057308 * (b + 0.044715 * b * b * b)) \
    + b * sigmoid(1.5957691216057308 * (b + 0.044715 * b * b * b)) * (1 - sigmoid(1.5957691216057308 * (b + 0.044715 * b * b * b))) \
    * 1.5957691216057308 * (1 + 0.134145 * b * b))";

/// Why random groups draw no gradient of an activation.
const OF_GRADIENTS: &str = "gradients of random graphs have it";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::tanh_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[floats(Promoted(2), "a * (1 - b * b)")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+1.3 +2", "
                grad grad_output = _grad_sum_to_size(tanh_backward(g, output), size(grad_output))
                grad output = _grad_sum_to_size(g * (grad_output * output * -2), size(output))
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.undrawn(OF_GRADIENTS)),
    },
    Row {
        kind: "aten::sigmoid_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[floats(Promoted(2), "a * (1 - b) * b")])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[("+1.3 +2", "
                grad grad_output = _grad_sum_to_size(sigmoid_backward(g, output), size(grad_output))
                grad output = _grad_sum_to_size(g * (grad_output * (1 - 2 * output)), size(output))
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.undrawn(OF_GRADIENTS)),
    },
    Row {
        kind: "aten::threshold_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[numbers(Kept, "b <= c ? 0 : a").factors(2).when(&[OfOneType(2), Held(2), Fits(2)])])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(drawn(&["t=n"])),
    },
    Row {
        kind: "aten::hardtanh_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[floats(Kept, "(b <= c) | (b >= d) ? 0 : a") .factors(2) .when(&[OfOneType(2), Fits(2), Fits(3)])])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(drawn(&["r=nn"])),
    },
    Row {
        kind: "aten::leaky_relu_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[
            floats(Kept, "b > 0 ? a : a * c").factors(2).when(&[OfOneType(2), Missing(3)]),
            floats(Kept, "b > 0 ? a : a * c").factors(2).when(&[OfOneType(2), Is(3, 0.0)]),
            floats(Kept, "b > 0 ? a : a * c").factors(2).when(&[OfOneType(2), From(2, 0.0)]),
        ])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(drawn(&["r=nf"])),
    },
    Row {
        kind: "aten::elu_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[
            floats(Kept, "f <= 0 ? a * d * (b * c) * exp(f * d) : a * c") .when(&[OfOneType(6), Is(4, 0.0)]),
            floats(Kept, "f <= 0 ? a * d * (f + b * c) : a * c") .when(&[OfOneType(6), Is(4, 1.0), From(1, 0.0)]),
        ])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            // The second derivative is the slope of the product that eager mode computed with the
            // other gradient before.
            ("+2 halves", "
                grad grad_output = elu_backward(g, alpha, scale, input_scale, is_result, self_or_result)
                both = g * grad_output * input_scale
                bent = if is_result { -> both } else { -> elu_backward(both, alpha, scale, input_scale, False, self_or_result) }
                grad self_or_result = bent * type_as(self_or_result < 0, bent)
            "),
            // The second derivative is 0 at the kink itself.
            ("+2", "
                grad grad_output = elu_backward(g, alpha, scale, input_scale, is_result, self_or_result)
                steep = Float(input_scale) * (if is_result { -> 1. } else { -> Float(alpha) * Float(scale) * Float(input_scale) })
                bent = if is_result { -> g * grad_output * steep } else { -> g * grad_output * (steep * exp(self_or_result * input_scale)) }
                grad self_or_result = masked_fill(bent, (self_or_result < 0) == 0, 0)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.undrawn("its operands have no letters").called(&[
            "2x3 float:1.5 float:0.5 float:2. no 2x3",
            "2x3 float:1.5 float:2. float:0.5 yes 2x3",
        ])),
    },
    Row {
        kind: "aten::hardshrink_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[floats(Kept, SHRINK_BACKWARD).factors(usize::MAX).when(&[OfOneType(2), Fits(2)])])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(drawn(&["r=n"])),
    },
    Row {
        kind: "aten::softshrink_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[floats(Kept, SHRINK_BACKWARD).factors(usize::MAX).when(&[OfOneType(2), Fits(2)])])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(drawn(&["r=n"])),
    },
    Row {
        kind: "aten::silu_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[floats(Kept, "a * sigmoid(b) * (1 + b * (1 - sigmoid(b)))").when(&[OfOneType(2)])])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(drawn(&["r="])),
    },
    Row {
        kind: "aten::gelu_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[
            floats(Kept, GELU_BACKWARD).when(&[OfOneType(2), Missing(2)]),
            floats(Kept, GELU_BACKWARD).when(&[OfOneType(2), Says(2, "none")]),
            floats(Kept, GELU_TANH_BACKWARD).when(&[OfOneType(2), Says(2, "tanh")]),
        ])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: Has(&[
            ("+2", "
                grad grad_output = gelu_backward(g, self, approximate=approximate)
                grad self = g * grad_output * AD_gelu_twice(self, approximate)
            "),
            ("+1.3", "
                grad grad = gelu_backward(g, self)
                grad self = g * grad * AD_normal_curve_twice(self)
            "),
            ("def AD_gelu_twice(self, approximate: str)  2", r#"
                -> if approximate == "tanh" {
                    square = self * self
                    once = 0.7978845608028654 * (1 + 0.134145 * square)
                    bent = tanh(0.7978845608028654 * (self + 0.044715 * square * self))
                    -> (1 - bent * bent) * (once - self * bent * once * once + 0.10703222440890037 * square)
                } else { -> AD_normal_curve_twice(self) }
            "#),
            ("def AD_normal_curve_twice(self)  1.3 2", "
                -> exp(self * self * -0.5) * 0.3989422804014327 * (2 - self * self)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.undrawn("its operands have no letters").called(&[
            r#"2x3 2x3 text:"none""#,
            r#"2x3 2x3 text:"tanh""#,
            "2x3 2x3",
        ])),
    },
    Row {
        kind: "aten::mish_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: No(UNKNOWN),
        fusion: Has(&[unfused(PLAIN, UNKNOWN)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::hardsigmoid_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[
            // The factor 1/6 is of single precision, also for doubles.
            floats(Kept, "(b > -3) & (b < 3) ? a * 0.1666666716337204 : 0").when(&[OfOneType(2)]),
        ])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(drawn(&["r="])),
    },
    Row {
        kind: "aten::hardswish_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[floats(Kept, "b <= -3 ? 0 : b < 3 ? a * (b / 3 + 0.5) : a").when(&[OfOneType(2)])])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(drawn(&["r="])),
    },
    Row {
        kind: "aten::softplus_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: Has(Formulas(&[floats(Kept, "b * c > d ? a : a * exp(b * c) / (exp(b * c) + 1)") .factors(2) .when(&[OfOneType(2), Missing(4)])])),
        fusion: Has(&[fused(PLAIN).level(2)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.undrawn("its operands have no letters")),
    },
    Row {
        kind: "aten::logit_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: No(UNFUSED),
        fusion: Has(&[unfused(PLAIN, UNFUSED)]),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::log_sigmoid_backward",
        shape: Has(&[sized(S::Broadcast, E::Settled)]),
        computation: No(UNFUSED),
        fusion: No(UNFUSED),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
];
