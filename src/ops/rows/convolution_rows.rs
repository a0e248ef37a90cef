//! Rows of the operator table: convolutions, and the columns of their windows.

use super::Row;
use super::vocabulary::*;

/// No kernel computes them.
const OUTSIDE: &str = "kernels of groups compute no convolutions: the interpreter runs it";
/// The gradient of `aten::_convolution` and `aten::convolution`.
const CONVOLUTION_GRADIENT: &str = "
    dinput, dweight, dbias = convolution_backward_overrideable(g, input, weight, stride, padding, dilation, transposed, output_padding, groups, [True, True, __isnot__(bias, None)])
    grad input = dinput
    grad weight = dweight
    grad bias = dbias
";

/// The gradient of `aten::_convolution` and `aten::convolution`.
const CONVOLUTION_GRADIENT_2: &str = "
    dinput, dweight, dbias = convolution_backward(g, input, weight, None, stride, padding, dilation, transposed, output_padding, groups, [True, True, __isnot__(bias, None)])
    grad input = dinput
    grad weight = dweight
    grad bias = dbias
";

/// The gradient of `aten::_convolution_mode` and its kin.
const CONVOLUTION_MODE_GRADIENT: &str = "
    pads = AD_text_padding(weight, dilation, padding)
    none = mul([0], dim(weight) - 2)
    padded = constant_pad_nd(input, pads, 0)
    mask = [True, True, __isnot__(bias, None)]
    dinput, dweight, dbias = convolution_backward(g, padded, weight, None, stride, none, dilation, False, none, groups, mask)
    grad input = AD_without_padding(dinput, pads)
    grad weight = dweight
    grad bias = dbias
";

/// The gradient of `aten::conv_transpose1d` and its kin.
const CONV_TRANSPOSE1D_GRADIENT: &str = "
    dinput, dweight, dbias = convolution_backward_overrideable(g, input, weight, stride, padding, dilation, True, output_padding, groups, [True, True, __isnot__(bias, None)])
    grad input = dinput
    grad weight = dweight
    grad bias = dbias
";

/// The gradient of `aten::conv_transpose1d` and its kin.
const CONV_TRANSPOSE1D_GRADIENT_2: &str = "
    dinput, dweight, dbias = convolution_backward(g, input, weight, None, stride, padding, dilation, True, output_padding, groups, [True, True, __isnot__(bias, None)])
    grad input = dinput
    grad weight = dweight
    grad bias = dbias
";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::_conv_depthwise2d",
        shape: Has(&[sized(S::Convolved, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&["1x1x5x4 2x1x3x2 ints:[3,2] 2 ints:[2,1] ints:[1,0] ints:[1,1]"])),
    },
    Row {
        kind: "aten::_convolution",
        shape: Has(&[sized(S::Convolved, E::Same).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3", CONVOLUTION_GRADIENT),
            ("+2", CONVOLUTION_GRADIENT_2),
            (".deprecated +2", CONVOLUTION_GRADIENT_2),
        ]),
        guard: Has(kept().recorded(&["", "deprecated"])),
        accuracy: Has(sums().adding(2)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "2x2x4x5 3x2x3x2 3 ints:[1,1] ints:[0,0] ints:[1,1] no ints:[0,0] int:1 no no no",
            "2x2x4x5 3x2x3x2 3 ints:[1,1] ints:[0,0] ints:[1,1] no ints:[0,0] int:1 no no no no",
            "1x2x3x3 2x3x2x2 3 ints:[2,1] ints:[0,0] ints:[1,1] yes ints:[1,0] int:1 no no no no",
        ]).hinted(&[of("input").rank_of_list("stride", 2), of("weight").rank_of_list("stride", 2), of("bias").rank(1)])),
    },
    Row {
        kind: "aten::_convolution_mode",
        shape: Has(&[sized(S::Convolved, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", CONVOLUTION_MODE_GRADIENT)]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "2x2x5 3x2x2 3 ints:[1] text:\"same\" ints:[1] int:1",
            "1x2x4x5 3x2x2x3 none ints:[2,1] text:\"valid\" ints:[1,1] int:1",
        ])),
    },
    Row {
        kind: "aten::_slow_conv2d_forward",
        shape: Has(&[sized(S::Convolved, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("2", "
                sizes = if __is__(bias, None) { -> None } else { -> size(prim::unchecked_cast(bias)) }
                mask = [True, True, __isnot__(bias, None)]
                dinput, dweight, dbias = convolution_backward(g, self, weight, sizes, stride, padding, [1, 1], False, [0, 0], 1, mask)
                grad self = dinput
                grad weight = dweight
                grad bias = dbias
            ")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&[
            "2x2x4x5 3x2x3x2 ints:[3,2] 3 ints:[1,1] ints:[0,0]",
            "1x2x5x5 4x2x2x2 ints:[2,2] none ints:[2,1] ints:[1,0]",
        ])),
    },
    Row {
        kind: "aten::col2im",
        shape: Has(&[sized(S::FromColumns, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "grad self = im2col(g, kernel_size, dilation, padding, stride)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "2x8x6 ints:[3,4] ints:[2,2] ints:[1,1] ints:[0,0] ints:[1,1]",
            "4x4 ints:[4,4] ints:[2,2] ints:[1,1] ints:[0,0] ints:[2,2]",
        ])),
    },
    Row {
        kind: "aten::col2im_backward",
        shape: Has(&[sized(S::Columns, E::Same)]),
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
        kind: "aten::conv1d",
        shape: Has(&[sized(S::Convolved, E::Same).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // The only operator of 1.3 with all of these operands.
            ("+1.3", "
                dinput, dweight, dbias = convolution_backward_overrideable(g, input, weight, stride, padding, dilation, False, [0], groups, [True, True, __isnot__(bias, None)])
                grad input = dinput
                grad weight = dweight
                grad bias = dbias
            "),
            ("+2", "
                dinput, dweight, dbias = convolution_backward(g, input, weight, None, stride, padding, dilation, False, [0], groups, [True, True, __isnot__(bias, None)])
                grad input = dinput
                grad weight = dweight
                grad bias = dbias
            "),
            (".padding +2", CONVOLUTION_MODE_GRADIENT),
        ]),
        guard: Has(redundant(but_for(&[2, 6]))),
        accuracy: Has(sums().adding(2)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "2x2x5 3x2x3 3 ints:[1] ints:[1] ints:[1] int:1",
            "2x4x5 2x2x2 none ints:[2] ints:[0] ints:[2] int:2",
            "2x5 3x2x3 3 ints:[1] ints:[0] ints:[1] int:1",
            "2x2x5 3x2x2 3 ints:[1] text:\"same\" ints:[1] int:1",
            "2x5 3x2x3 none ints:[2] text:\"valid\" ints:[1] int:1",
        ]).hinted(&[of("input").rank(3), of("weight").rank(3), of("bias").rank(1)]).forwarding(true, false)),
    },
    Row {
        kind: "aten::conv2d",
        shape: Has(&[sized(S::Convolved, E::Same).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3", "
                dinput, dweight, dbias = convolution_backward_overrideable(g, input, weight, stride, padding, dilation, False, [0, 0], groups, [True, True, __isnot__(bias, None)])
                grad input = dinput
                grad weight = dweight
                grad bias = dbias
            "),
            ("+2", "
                sizes = if __is__(bias, None) { -> None } else { -> size(prim::unchecked_cast(bias)) }
                mask = [True, True, __isnot__(bias, None)]
                dinput, dweight, dbias = convolution_backward(g, input, weight, sizes, stride, padding, dilation, False, [0, 0], groups, mask)
                grad input = dinput
                grad weight = dweight
                grad bias = dbias
            "),
            (".padding +2", CONVOLUTION_MODE_GRADIENT),
        ]),
        guard: Has(redundant(but_for(&[2, 6])).recorded(&["", "padding"])),
        accuracy: Has(sums().adding(2)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "2x2x4x5 3x2x3x2 3 ints:[1,1] ints:[0,0] ints:[1,1] int:1",
            "1x2x5x5 4x1x2x2 none ints:[2,1] ints:[1,0] ints:[1,2] int:2",
            "2x4x4 3x2x3x3 3 ints:[1,1] ints:[0,0] ints:[1,1] int:1",
            "1x2x4x5 4x1x2x3 4 ints:[1,1] text:\"same\" ints:[1,2] int:2",
            "1x2x4x5 3x2x2x3 none ints:[2,1] text:\"valid\" ints:[1] int:1",
        ]).hinted(&[of("input").rank(4), of("weight").rank(4), of("bias").rank(1)]).forwarding(true, false)),
    },
    Row {
        kind: "aten::conv3d",
        shape: Has(&[sized(S::Convolved, E::Same).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3", "
                dinput, dweight, dbias = convolution_backward_overrideable(g, input, weight, stride, padding, dilation, False, [0, 0, 0], groups, [True, True, __isnot__(bias, None)])
                grad input = dinput
                grad weight = dweight
                grad bias = dbias
            "),
            ("+2", "
                dinput, dweight, dbias = convolution_backward(g, input, weight, None, stride, padding, dilation, False, [0, 0, 0], groups, [True, True, __isnot__(bias, None)])
                grad input = dinput
                grad weight = dweight
                grad bias = dbias
            "),
            (".padding +2", CONVOLUTION_MODE_GRADIENT),
        ]),
        guard: Has(redundant(but_for(&[2, 6]))),
        accuracy: Has(sums().adding(2)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "1x2x3x4x3 2x2x2x2x2 2 ints:[1,1,1] ints:[0,1,0] ints:[1,1,1] int:1",
            "1x1x3x2x3 2x1x2x1x3 2 ints:[1,1,1] text:\"same\" ints:[1,1,1] int:1",
        ]).hinted(&[of("input").rank(5), of("weight").rank(5)]).forwarding(true, false)),
    },
    Row {
        kind: "aten::conv_tbc",
        shape: Has(&[sized(S::RankOnly, E::Same).reported_as(RANK)]),
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
        kind: "aten::conv_transpose1d",
        shape: Has(&[sized(S::Convolved, E::Same).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3", CONV_TRANSPOSE1D_GRADIENT),
            ("+2", CONV_TRANSPOSE1D_GRADIENT_2),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x2x4 2x3x3 3 ints:[2] ints:[1] ints:[1] int:1 ints:[1]"])),
    },
    Row {
        kind: "aten::conv_transpose2d",
        shape: Has(&[sized(S::Convolved, E::Same).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            (".input +1.3", CONV_TRANSPOSE1D_GRADIENT),
            (".input +2", CONV_TRANSPOSE1D_GRADIENT_2),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["1x2x3x3 2x3x2x2 3 ints:[2,1] ints:[0,0] ints:[1,0] int:1 ints:[1,1]"])),
    },
    Row {
        kind: "aten::conv_transpose3d",
        shape: Has(&[sized(S::Convolved, E::Same).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            (".input +1.3", CONV_TRANSPOSE1D_GRADIENT),
            (".input +2", CONV_TRANSPOSE1D_GRADIENT_2),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "1x2x2x2x2 2x1x2x2x2 none ints:[1,1,1] ints:[0,0,0] ints:[0,0,0] int:1 ints:[1,1,1]",
        ])),
    },
    Row {
        kind: "aten::convolution",
        shape: Has(&[sized(S::Convolved, E::Same).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3", CONVOLUTION_GRADIENT),
            ("+2", CONVOLUTION_GRADIENT_2),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "2x2x4x5 3x2x3x2 3 ints:[1,1] ints:[0,0] ints:[1,1] no ints:[0,0] int:1",
            "1x2x3x3 2x3x2x2 3 ints:[2,1] ints:[0,0] ints:[1,1] yes ints:[1,0] int:1",
        ])),
    },
    Row {
        kind: "aten::convolution_backward",
        shape: Has(&[sized(S::Each(&[S::Of("input"), S::Of("weight"), S::Channels("grad_output")]), E::Of("input"))]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "
                grad grad_output = AD_conv_out(grad_output, g0, g1, g2, input, weight, stride, padding, dilation, transposed, output_padding, groups)
                grad input = if prim::AutogradAnyNonZero(g1) {
                    dinput, dweight, dbias = convolution_backward(grad_output, input, g1, None, stride, padding, dilation, transposed, output_padding, groups, [True, False, False])
                    -> dinput
                } else { -> zeros_like(input) }
                grad weight = if prim::AutogradAnyNonZero(g0) {
                    dinput, dweight, dbias = convolution_backward(grad_output, g0, weight, None, stride, padding, dilation, transposed, output_padding, groups, [False, True, False])
                    -> dweight
                } else { -> zeros_like(weight) }
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&[
            "2x3x2x3 2x2x4x5 3x2x3x3 none ints:[1,1] ints:[0,0] ints:[1,1] no ints:[0,0] int:1 mask",
        ])),
    },
    Row {
        kind: "aten::convolution_backward_overrideable",
        shape: Has(&[sized(S::Each(&[S::Of("input"), S::Of("weight"), S::Channels("grad_output")]), E::Of("input"))]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3", "
                grad grad_output = AD_conv_out(grad_output, g0, g1, g2, input, weight, stride, padding, dilation, transposed, output_padding, groups)
                grad input = if prim::AutogradAnyNonZero(g1) {
                    dinput, dweight, dbias = convolution_backward_overrideable(grad_output, input, g1, stride, padding, dilation, transposed, output_padding, groups, [True, False, False])
                    -> dinput
                } else { -> zeros_like(input) }
                grad weight = if prim::AutogradAnyNonZero(g0) {
                    dinput, dweight, dbias = convolution_backward_overrideable(grad_output, g0, weight, stride, padding, dilation, transposed, output_padding, groups, [False, True, False])
                    -> dweight
                } else { -> zeros_like(weight) }
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&[
            "2x3x2x3 2x2x4x5 3x2x3x3 ints:[1,1] ints:[0,0] ints:[1,1] no ints:[0,0] int:1 mask",
        ])),
    },
    Row {
        kind: "aten::convolution_overrideable",
        shape: Has(&[sized(S::Convolved, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.shaped(&[
            "2x2x4x5 3x2x3x2 3 ints:[1,1] ints:[0,0] ints:[1,1] no ints:[0,0] int:1",
            "1x2x3x3 2x3x2x2 3 ints:[2,1] ints:[0,0] ints:[1,1] yes ints:[1,0] int:1",
        ])),
    },
    Row {
        kind: "aten::im2col",
        shape: Has(&[sized(S::Columns, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3 +2", "grad self = col2im(g, AD_last_sizes(self), kernel_size, dilation, padding, stride)"),
            ("def AD_last_sizes(self)  1.3 2", "
                -> slice(size(self), dim(self) - 2, 9223372036854775807, 1)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "2x2x4x5 ints:[2,3] ints:[1,1] ints:[0,1] ints:[1,2]",
            "3x5x4 ints:[2,2] ints:[2,1] ints:[1,0] ints:[1,1]",
        ]).hinted(&[of("self").rank(4)])),
    },
    Row {
        kind: "aten::im2col_backward",
        shape: Has(&[sized(S::FromColumns, E::Same)]),
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
        kind: "aten::mkldnn_convolution",
        shape: Has(&[sized(S::Convolved, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&["2x2x4x5 3x2x3x2 3 ints:[0,1] ints:[1,2] ints:[1,1] int:1"])),
    },
    Row {
        kind: "aten::slow_conv3d",
        shape: Has(&[sized(S::Convolved, E::Same)]),
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
        kind: "aten::thnn_conv2d",
        shape: Has(&[sized(S::Convolved, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3", "
                dself, dweight, dbias = convolution_backward_overrideable(g, self, weight, stride, padding, [1, 1], False, [0, 0], 1, [True, True, __isnot__(bias, None)])
                grad self = dself
                grad weight = dweight
                grad bias = dbias
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x2x4x5 3x2x3x2 ints:[3,2] 3 ints:[1,1] ints:[0,0]"])),
    },
];
