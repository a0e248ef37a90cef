//! Rows of the operator table: what sorts, counts, and finds ranks.

use super::Row;
use super::vocabulary::*;

/// No kernel computes them.
const OUTSIDE: &str = "kernels of groups do not sort: the interpreter runs it";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::_unique",
        shape: Has(&[sized(S::Unreported, E::WithIndex).by_values("the result has one entry per distinct element")]),
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
        kind: "aten::_unique2",
        shape: Has(&[sized(S::Unreported, E::WithIndex).by_values("the result has one entry per distinct element")]),
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
        kind: "aten::argsort",
        shape: Has(&[sized(S::Like, E::Long).detached()]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // These have no gradient.
            ("+2 none", ""),
            ("+1.3 none", ""),
        ]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::bincount",
        shape: Has(&[sized(S::Counted(1), E::OfWeights)
            .detached()
            .by_values("the size depends on the largest element")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No("eager mode has none, and weights are counted as constants"),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.hinted(&[of("self").rank(1).integers()])),
    },
    Row {
        kind: "aten::bucketize",
        shape: Has(&[sized(S::OfOrNumber("self"), E::Places).detached()]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[(".Tensor +2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&["float:0.5 3 no no"])),
    },
    Row {
        kind: "aten::histc",
        shape: Has(&[sized(S::Counting("bins"), E::Same).detached()]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(INTEGRAL),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::msort",
        shape: Has(&[sized(S::Like, E::Same)]),
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
        kind: "aten::nanquantile",
        shape: Has(&[sized(S::Quantiles, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            (
                "+2",
                "
                asked = reshape(q, [-1])
                grad self = AD_quantile_backward(g, self, asked, dim, interpolation, True)
                grad q = AD_quantile_slope(g, self, q, dim, interpolation, True)
            ",
            ),
            (
                ".scalar +2",
                "grad self = AD_quantile_backward(g, self, new_full(self, [1], q), dim, interpolation, True)",
            ),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "2x4x3 doubles:0.15,0.7 int:1 yes text:\"linear\"",
            "3x4 float:0.45 int:1 no text:\"midpoint\"",
            "4 float:0.45 none no text:\"nearest\"",
        ])),
    },
    Row {
        kind: "aten::quantile",
        shape: Has(&[sized(S::Quantiles, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            (
                "+2",
                "
                asked = reshape(q, [-1])
                grad self = AD_quantile_backward(g, self, asked, dim, interpolation, False)
                grad q = AD_quantile_slope(g, self, q, dim, interpolation, False)
            ",
            ),
            (
                ".scalar +2",
                "grad self = AD_quantile_backward(g, self, new_full(self, [1], q), dim, interpolation, False)",
            ),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED
            .called(&[
                "3x4 doubles:0.15,0.7 int:1 no text:\"linear\"",
                "3x4 doubles:0.4 int:-2 yes text:\"linear\"",
                "2x5 doubles:0.1,0.35,0.9 none no text:\"midpoint\"",
                "2x3x4 float:0.3 int:0 no text:\"linear\"",
                "2x5 float:0.7 none yes text:\"lower\"",
                "3x4 float:0.7 int:-1 no text:\"higher\"",
                "3x4 float:0.6 int:0 yes text:\"nearest\"",
            ])
            .shaped(&["float64:2x3 float64:2 int:1 no text:\"linear\"", "2x3 2 int:0 yes text:\"linear\""])),
    },
    Row {
        kind: "aten::searchsorted",
        shape: Has(&[sized(S::OfOrNumber("self"), E::Places).detached()]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[(".Tensor +2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&["3 float:0.5 no no none none"])),
    },
    Row {
        kind: "aten::sort",
        shape: Has(&[sized(S::Like, E::WithIndex)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3 +2", "grad self = AD_to_selected(g0, result1, self, dim, True)"),
            (".stable +2", "grad self = AD_to_selected(g0, result1, self, dim, True)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3 int:1 no"])),
    },
    Row {
        kind: "aten::sorted",
        shape: Has(&[sized(S::Unreported, E::Same)
            .by_values("the order of the tensors depends on their elements")
            .with("input")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.shaped(&["list:scalar,scalar"])),
    },
    Row {
        kind: "aten::topk",
        shape: Has(&[sized(S::TopK, E::WithIndex)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "grad self = AD_to_selected(g0, result1, self, dim, True)")]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::unique_consecutive",
        shape: Has(&[sized(S::Unreported, E::WithIndex).by_values("the result has one entry per distinct element")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::unique_dim",
        shape: Has(&[sized(S::Unreported, E::WithIndex).by_values("the result has one entry per distinct element")]),
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
        kind: "aten::unique_dim_consecutive",
        shape: Has(&[sized(S::Unreported, E::WithIndex).by_values("the result has one entry per distinct element")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
];
