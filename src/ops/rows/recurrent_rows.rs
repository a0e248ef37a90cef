//! Rows of the operator table: recurrent layers and cells.

use super::Row;
use super::vocabulary::*;

/// No kernel computes them.
const OUTSIDE: &str = "kernels of groups compute no recurrent layers: the interpreter runs it";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::_pack_padded_sequence",
        shape: Has(&[sized(S::Unreported, E::Each(&[E::Same, E::Long])).by_values("the size is the sum of the sequence lengths")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // The gradient of rows goes to the positions of these rows.
            ("+1.3 +2", "
                places, sizes = _pack_padded_sequence(AD_places(input), lengths, batch_first)
                grad input = AD_put_back(g0, places, input)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3x2 longs:4,2,1 no", "3x4x2 longs:3,3,2 yes"])),
    },
    Row {
        kind: "aten::_pad_packed_sequence",
        shape: Has(&[sized(S::Unreported, E::Each(&[E::Same, E::Long])).by_values("the size is the sum of the sequence lengths")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                places, sizes = _pad_packed_sequence(AD_places(data), batch_sizes, batch_first, -1, total_length)
                grad data = AD_put_some_back(g0, places, data)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "7x2 longs:3,2,1,1 no float:0.5 int:0",
            "5 longs:3,2 yes float:0. int:4",
        ])),
    },
    Row {
        kind: "aten::_thnn_fused_gru_cell",
        shape: Has(&[sized(S::Each(&[S::Of("hx"), S::GruWorkspace]), E::Promoted)]),
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
        kind: "aten::_thnn_fused_lstm_cell",
        shape: Has(&[sized(S::Each(&[S::Of("cx"), S::Of("cx"), S::Of("input_gates")]), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.shaped(&["2x12 2x12 2x3 none none", "2x12 2x12 2x3 12 12"])),
    },
    Row {
        kind: "aten::gru",
        shape: Has(&[sized(S::Each(&[S::RecurrentOutput, S::Of("hx")]), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&[
            "7x3 longs:3,2,1,1 1x3x4 list:12x3,12x4,12,12 yes int:1 float:0. no no",
        ]).hinted(&[of("input").rank(3), of("hx").rank(3)])),
    },
    Row {
        kind: "aten::gru_cell",
        shape: Has(&[sized(S::Of("hx"), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2 halves", "
                keep from_input = AD_to_gates(input, w_ih, b_ih)
                keep from_hidden = AD_to_gates(hx, w_hh, b_hh)
                reset = sigmoid(AD_gate(from_input, hx, 0) + AD_gate(from_hidden, hx, 0))
                update = sigmoid(AD_gate(from_input, hx, 1) + AD_gate(from_hidden, hx, 1))
                shown = AD_gate(from_hidden, hx, 2)
                new = tanh(AD_gate(from_input, hx, 2) + reset * shown)
                kept = g * update
                of_new = tanh_backward(g - kept, new)
                of_update = sigmoid_backward(g * (hx - new), update)
                of_reset = sigmoid_backward(of_new * shown, reset)
                of_input = cat([of_reset, of_update, of_new], 1)
                of_state = cat([of_reset, of_update, of_new * reset], 1)
                grad input = matmul(of_input, w_ih)
                grad hx = kept + matmul(of_state, w_hh)
                grad w_ih = matmul(t(of_input), input)
                grad w_hh = matmul(t(of_state), hx)
                grad b_ih = sum(of_input, [0])
                grad b_hh = sum(of_state, [0])
            "),
            ("+1.3 +2", "
                keep from_input = AD_to_gates(input, w_ih, b_ih)
                keep from_hidden = AD_to_gates(hx, w_hh, b_hh)
                reset = sigmoid(AD_gate(from_input, hx, 0) + AD_gate(from_hidden, hx, 0))
                update = sigmoid(AD_gate(from_input, hx, 1) + AD_gate(from_hidden, hx, 1))
                shown = AD_gate(from_hidden, hx, 2)
                new = tanh(AD_gate(from_input, hx, 2) + reset * shown)
                of_new = g * (1 - update) * (1 - new * new)
                of_update = g * (hx - new) * update * (1 - update)
                of_reset = of_new * shown * reset * (1 - reset)
                of_input = cat([of_reset, of_update, of_new], 1)
                of_state = cat([of_reset, of_update, of_new * reset], 1)
                grad input = matmul(of_input, w_ih)
                grad hx = g * update + matmul(of_state, w_hh)
                grad w_ih = matmul(t(of_input), input)
                grad w_hh = matmul(t(of_state), hx)
                grad b_ih = sum(of_input, [0])
                grad b_hh = sum(of_state, [0])
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x3 2x4 12x3 12x4 12 12", "2x3 2x1 3x3 3x1 none none"]).hinted(&[of("input").rank(2), of("hx").rank(2), of("w_ih").rank(2), of("w_hh").rank(2), of("b_ih").rank(1), of("b_hh").rank(1)])),
    },
    Row {
        kind: "aten::lstm",
        shape: Has(&[
            sized(S::Each(&[S::RecurrentOutput, S::Nth(1), S::Nth(2)]), E::Same).with("input"),
            sized(S::Each(&[S::RecurrentOutput, S::Nth(2), S::Nth(3)]), E::Same),
        ]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&[
            "5x2x3 list:1x2x4,1x2x4 list:16x3,16x4,16,16 yes int:1 float:0. no no no",
            "2x5x3 list:2x2x4,2x2x4 list:16x3,16x4,16x3,16x4 no int:1 float:0. no yes yes",
            "7x3 longs:3,2,1,1 list:1x3x4,1x3x4 list:16x3,16x4,16,16 yes int:1 float:0. no no",
        ]).hinted(&[of("input").rank(3), of("hx").rank(3)])),
    },
    Row {
        kind: "aten::lstm_cell",
        shape: Has(&[sized(S::Each(&[S::Nth(2), S::Nth(2)]), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                keep gates = AD_to_gates(input, w_ih, b_ih) + AD_to_gates(hx[0], w_hh, b_hh)
                ins = sigmoid(AD_gate(gates, result0, 0))
                forget = sigmoid(AD_gate(gates, result0, 1))
                cell = tanh(AD_gate(gates, result0, 2))
                outs = sigmoid(AD_gate(gates, result0, 3))
                seen = tanh(result1)
                of_hidden = AD_given(g0, result0)
                of_cell = AD_given(g1, result1) + of_hidden * outs * (1 - seen * seen)
                of_ins = of_cell * cell * ins * (1 - ins)
                of_forget = of_cell * hx[1] * forget * (1 - forget)
                of_gates = cat([of_ins, of_forget, of_cell * ins * (1 - cell * cell), of_hidden * seen * outs * (1 - outs)], 1)
                grad input = matmul(of_gates, w_ih)
                grad hx = [matmul(of_gates, w_hh), of_cell * forget]
                grad w_ih = matmul(t(of_gates), input)
                grad w_hh = matmul(t(of_gates), hx[0])
                grad b_ih = sum(of_gates, [0])
                grad b_hh = sum(of_gates, [0])
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "2x3 list:double:2x4,double:2x4 16x3 16x4 16 16",
            "2x3 list:double:2x1,double:2x1 4x3 4x1 none none",
        ]).hinted(&[of("input").rank(2), of("hx").rank(2), of("w_ih").rank(2), of("w_hh").rank(2), of("b_ih").rank(1), of("b_hh").rank(1)])),
    },
    Row {
        kind: "aten::rnn_relu",
        shape: Has(&[sized(S::Each(&[S::RecurrentOutput, S::Of("hx")]), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&["2x5x3 2x2x4 list:4x3,4x4,4x3,4x4 no int:1 float:0. no yes yes"]).hinted(&[of("input").rank(3), of("hx").rank(3)])),
    },
    Row {
        kind: "aten::rnn_relu_cell",
        shape: Has(&[sized(S::Of("hx"), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2 halves", "
                gates = AD_to_gates(input, w_ih, b_ih) + AD_to_gates(hx, w_hh, b_hh)
                of_gates = masked_fill(g, gates <= 0, 0)
                grad input = matmul(of_gates, w_ih)
                grad hx = matmul(of_gates, w_hh)
                grad w_ih = matmul(t(of_gates), input)
                grad w_hh = matmul(t(of_gates), hx)
                grad b_ih = sum(of_gates, [0])
                grad b_hh = sum(of_gates, [0])
            "),
            ("+1.3 +2", "
                of_gates = g * type_as(result > 0, result)
                grad input = matmul(of_gates, w_ih)
                grad hx = matmul(of_gates, w_hh)
                grad w_ih = matmul(t(of_gates), input)
                grad w_hh = matmul(t(of_gates), hx)
                grad b_ih = sum(of_gates, [0])
                grad b_hh = sum(of_gates, [0])
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x3 2x4 4x3 4x4 4 4", "2x3 2x4 4x3 4x4 none none"]).hinted(&[of("input").rank(2), of("hx").rank(2), of("w_ih").rank(2), of("w_hh").rank(2), of("b_ih").rank(1), of("b_hh").rank(1)])),
    },
    Row {
        kind: "aten::rnn_tanh",
        shape: Has(&[sized(S::Each(&[S::RecurrentOutput, S::Of("hx")]), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&["5x2x3 1x2x4 list:4x3,4x4,4,4 yes int:1 float:0. no no no"]).hinted(&[of("input").rank(3), of("hx").rank(3)])),
    },
    Row {
        kind: "aten::rnn_tanh_cell",
        shape: Has(&[sized(S::Of("hx"), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2 halves", "
                gates = AD_to_gates(input, w_ih, b_ih) + AD_to_gates(hx, w_hh, b_hh)
                of_gates = tanh_backward(g, tanh(gates))
                grad input = matmul(of_gates, w_ih)
                grad hx = matmul(of_gates, w_hh)
                grad w_ih = matmul(t(of_gates), input)
                grad w_hh = matmul(t(of_gates), hx)
                grad b_ih = sum(of_gates, [0])
                grad b_hh = sum(of_gates, [0])
            "),
            ("+1.3 +2", "
                of_gates = g * (1 - result * result)
                grad input = matmul(of_gates, w_ih)
                grad hx = matmul(of_gates, w_hh)
                grad w_ih = matmul(t(of_gates), input)
                grad w_hh = matmul(t(of_gates), hx)
                grad b_ih = sum(of_gates, [0])
                grad b_hh = sum(of_gates, [0])
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x3 2x4 4x3 4x4 4 4", "2x3 2x4 4x3 4x4 none none"]).hinted(&[of("input").rank(2), of("hx").rank(2), of("w_ih").rank(2), of("w_hh").rank(2), of("b_ih").rank(1), of("b_hh").rank(1)])),
    },
];
