//! Rows of the operator table: losses.

use super::Row;
use super::vocabulary::*;

/// No kernel computes them.
const OUTSIDE: &str = "kernels of groups compute no losses: they are decomposed, or the interpreter runs them";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::_ctc_loss",
        shape: Has(&[sized(S::Each(&[S::Channels("log_probs"), S::Unreported]), E::Same).by_values("the size of the scores depends on the lengths of the targets")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // As in eager mode: the gradient is that of the operand of `log_softmax`, and has none
            // itself.
            ("+1.3 +2", "grad log_probs = _ctc_loss_backward(g0, log_probs, targets, input_lengths, target_lengths, result0, result1, blank, zero_infinity)"),
            (".Tensor +2", "grad log_probs = _ctc_loss_backward(g0, log_probs, targets, input_lengths, target_lengths, result0, result1, blank, zero_infinity)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&[
            "5x2x4 long:2x3 ints:[5,4] ints:[3,2] int:0 no",
            "5x2x4 long:2x3 longs:5,4 longs:3,2 int:0 no",
        ])),
    },
    Row {
        kind: "aten::_ctc_loss_backward",
        shape: Has(&[sized(S::Of("log_probs"), E::Same)]),
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
        kind: "aten::binary_cross_entropy",
        shape: Has(&[sized(S::Loss(2), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                share = AD_weighed(AD_share(g, reduction, self), weight)
                grad self = share * (self - target) / clamp_min(self * (1 - self), 1e-12)
                grad target = share * (log(1 - self) - log(self))
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&["4x3 4x3 none int:1", "4x3 4x3 3 int:2", "4x3 4x3 4x3 int:0"])),
    },
    Row {
        kind: "aten::binary_cross_entropy_backward",
        shape: Has(&[sized(S::Broadcast, E::Of("self"))]),
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
        kind: "aten::binary_cross_entropy_with_logits",
        shape: Has(&[sized(S::Loss(4), E::OfTarget)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2 halves", "
                plain = if __is__(pos_weight, None) { -> sigmoid(self) - target } else {
                    there = prim::unchecked_unwrap_optional(pos_weight) * target
                    -> (there + 1 - target) * sigmoid(self) - there
                }
                grad self = _grad_sum_to_size(AD_averaged(AD_weighed(plain * g, weight), reduction, self), size(self))
                apart = if __is__(pos_weight, None) { -> -self } else { -> log_sigmoid(-self) - AD_weighed(log_sigmoid(self), pos_weight) }
                grad target = _grad_sum_to_size(AD_averaged(AD_weighed(apart * g, weight), reduction, target), size(target))
            "),
            ("+1.3 +2", "
                share = AD_weighed(AD_share(g, reduction, self - target), weight)
                there = AD_weighed(target, pos_weight)
                grad self = _grad_sum_to_size(share * ((there + 1 - target) * sigmoid(self) - there), size(self))
                apart = if __is__(pos_weight, None) { -> -self } else { -> log_sigmoid(-self) - AD_weighed(log_sigmoid(self), pos_weight) }
                grad target = _grad_sum_to_size(share * apart, size(target))
            "),
            ("def AD_averaged(each, reduction: int, like)  2", "
                -> if reduction == 1 { -> each / numel(like) } else { -> each }
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "4x3 4x3 none none int:1",
            "4x3 4x3 3 none int:2",
            "4x3 4x3 4x3 3 int:0",
        ])),
    },
    Row {
        kind: "aten::cosine_embedding_loss",
        shape: Has(&[sized(S::CosineLoss, E::SettledFloat)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // Squares, their product, its root and the quotient are each rounded.
            ("+2 halves from=2.14", "
                least = 9.999999960041972e-13
                products = sum(input1 * input2, [-1])
                square1 = sum(input1 * input1, [-1]) + least
                square2 = sum(input2 * input2, [-1]) + least
                lengths = sqrt(square1 * square2)
                cosines = products / lengths
                share = AD_share(g, reduction, cosines + target)
                of_far = masked_fill(share, __and__(target == -1, (cosines - margin) > 0) == 0, 0)
                of_cosines = of_far - masked_fill(share, (target == 1) == 0, 0)
                of_lengths = -of_cosines * (products / lengths / lengths)
                of_both = of_lengths / (lengths * 2)
                of_products = unsqueeze(of_cosines / lengths, -1)
                half1 = unsqueeze(of_both * square2, -1) * input1
                half2 = unsqueeze(of_both * square1, -1) * input2
                grad input1 = _grad_sum_to_size(half1 + half1 + of_products * input2, size(input1))
                grad input2 = _grad_sum_to_size(half2 + half2 + of_products * input1, size(input2))
            "),
            ("+1.3 +2 until=2.14", "
                cosine, square1, square2 = AD_cosines(input1, input2)
                cosines = squeeze(cosine, -1)
                one, two = AD_cosine_backward(AD_cosine_embedding(g, __and__(target == -1, cosines >= margin), cosines, target, reduction), input1, input2)
                grad input1 = one
                grad input2 = two
            "),
            ("+2 from=2.14", "
                cosine, square1, square2 = AD_cosines(input1, input2)
                cosines = squeeze(cosine, -1)
                one, two = AD_cosine_backward(AD_cosine_embedding(g, __and__(target == -1, cosines > margin), cosines, target, reduction), input1, input2)
                grad input1 = one
                grad input2 = two
            "),
            ("def AD_cosine_backward(grad, input1, input2)  1.3 2", "
                cosine, square1, square2 = AD_cosines(input1, input2)
                scale = rsqrt(square1 * square2)
                share = unsqueeze(grad, -1)
                -> share * (input2 * scale - input1 * (cosine / square1)), share * (input1 * scale - input2 * (cosine / square2))
            "),
            // The hinge for targets of -1: rows that are far enough apart have no gradient.
            ("def AD_cosine_embedding(grad, far, cosines, target, reduction: int)  1.3 2", "
                share = AD_share(grad, reduction, cosines + target)
                -> _grad_sum_to_size(masked_fill(share, far == 0, 0) - masked_fill(share, (target == 1) == 0, 0), size(cosines))
            "),
            // Cosines with a small number added to the squares, so that rows of zeros have one:
            // 1e-12 as a float, the type in which PyTorch keeps it.
            ("def AD_cosines(input1, input2)  1.3 2", "
                least = 9.999999960041972e-13
                square1 = sum(input1 * input1, [-1], True) + least
                square2 = sum(input2 * input2, [-1], True) + least
                -> sum(input1 * input2, [-1], True) * rsqrt(square1 * square2), square1, square2
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "4x3 4x3 double:4 float:0.1 int:1",
            "4x3 4x3 sign:4 float:-0.1 int:0",
            "4x3 4x3 sign:1 float:0.1 int:2",
        ])),
    },
    Row {
        kind: "aten::cross_entropy_loss",
        shape: Has(&[sized(S::ClassLoss, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2 halves", "
                logs = log_softmax(AD_classes_last(self), 1, None)
                here = AD_of_rows(g, reduction)
                each = if is_floating_point(target) {
                    -> AD_soft_entropy(here, AD_classes_last(target), weight, reduction, label_smoothing)
                } else {
                    -> AD_class_entropy_of_halves(here, logs, reshape(target, [-1]), weight, reduction, ignore_index, label_smoothing)
                }
                grad self = AD_classes_back(_log_softmax_backward_data(each, logs, 1, prim::dtype(self)), self)
                grad target = if is_floating_point(target) {
                    share = if reduction == 1 { -> here / size(logs)[0] } else if reduction == 0 { -> unsqueeze(here, 1) } else { -> here }
                    -> AD_classes_back(AD_weighed(-logs * (1. - label_smoothing) * share, weight), target)
                } else {
                    -> zeros_like(target)
                }
                is_wanted = if __is__(weight, None) { -> False } else { -> is_floating_point(target) }
                of_weight = if is_wanted {
                    -> sum(AD_soft_entropy(here, AD_classes_last(target), None, reduction, label_smoothing) * logs, [0])
                } else {
                    -> None
                }
                grad weight = prim::unchecked_unwrap_optional(of_weight)
            "),
            ("+2", "
                logs = log_softmax(AD_classes_last(self), 1, None)
                here = AD_of_rows(g, reduction)
                each = if is_floating_point(target) {
                    -> AD_soft_entropy(here, AD_classes_last(target), weight, reduction, label_smoothing)
                } else {
                    -> AD_class_entropy(here, logs, reshape(target, [-1]), weight, reduction, ignore_index, label_smoothing)
                }
                grad self = AD_classes_back(_log_softmax_backward_data(each, logs, 1, prim::dtype(self)), self)
                grad target = if is_floating_point(target) {
                    share = if reduction == 1 { -> here / size(logs)[0] } else if reduction == 0 { -> unsqueeze(here, 1) } else { -> here }
                    -> AD_classes_back(AD_weighed(-logs * (1. - label_smoothing) * share, weight), target)
                } else {
                    -> zeros_like(target)
                }
                # Of weights of classes that are picked eager mode has no gradient.
                is_wanted = if __is__(weight, None) { -> False } else { -> is_floating_point(target) }
                of_weight = if is_wanted {
                    -> sum(AD_soft_entropy(here, AD_classes_last(target), None, reduction, label_smoothing) * logs, [0])
                } else {
                    -> None
                }
                grad weight = prim::unchecked_unwrap_optional(of_weight)
            "),
            // `label_smoothing` distributes a part of the weight of a target over all classes.
            ("def AD_class_entropy(grad, logs, target, weight: Tensor?, reduction: int, ignore_index: int, smoothing: float)  2", "
                loss, total = nll_loss_forward(logs, target, weight, reduction, ignore_index)
                sharp = nll_loss_backward(grad, logs, target, weight, reduction, ignore_index, total)
                -> if smoothing == 0. { -> sharp } else {
                    counted = type_as(unsqueeze(target != ignore_index, 1), logs)
                    share = if reduction == 1 { -> grad / total } else if reduction == 0 { -> unsqueeze(grad, 1) } else { -> grad }
                    even = AD_weighed(zeros_like(logs) + counted, weight) * share
                    -> sharp * (1. - smoothing) - even * (smoothing / size(logs)[1])
                }
            "),
            ("def AD_soft_entropy(grad, target, weight: Tensor?, reduction: int, smoothing: float)  2", "
                soft = target * (1. - smoothing) + smoothing / size(target)[1]
                share = if reduction == 1 { -> grad / size(target)[0] } else if reduction == 0 { -> unsqueeze(grad, 1) } else { -> grad }
                -> AD_weighed(-soft * share, weight)
            "),
            ("def AD_class_entropy_of_halves(grad, logs, target, weight: Tensor?, reduction: int, ignore_index: int, smoothing: float)  2", "
                sharp = AD_class_of_halves(grad * (1. - smoothing), logs, target, weight, reduction, ignore_index)
                -> if smoothing == 0. { -> sharp } else {
                    is_counted = target != ignore_index
                    each = AD_weighed(new_ones(logs, [size(logs)[1]]), weight)
                    picked = index_select(each, 0, masked_fill(target, is_counted == 0, 0))
                    even = grad * (smoothing / size(logs)[1])
                    share = if reduction == 1 { -> even / sum(masked_fill(picked, is_counted == 0, 0)) } else { -> even }
                    rows = masked_fill(expand(share, size(target)), is_counted == 0, 0)
                    -> AD_weighed(expand(unsqueeze(-rows, 1), size(logs)), weight) + sharp
                }
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "4x3x5 long:4x5 3 int:2 int:-100 float:0.2",
            "4x3 long:4 3 int:1 int:-100 float:0.2",
            "4x3 long:4 none int:0 int:1 float:0.0",
            "4x3 4x3 none int:1 int:1 float:0.1",
            "4x3x2 4x3x2 3 int:0 int:1 float:0.0",
            "3 long: none int:1 int:-100 float:0.0",
        ]).hinted(&[of("target").integers()])),
    },
    Row {
        kind: "aten::ctc_loss",
        shape: Has(&[sized(S::SequenceLoss, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            (".IntList +1.3 +2", "
                each = AD_batched(log_probs)
                losses, alphas = _ctc_loss(each, targets, input_lengths, target_lengths, blank, zero_infinity)
                share = AD_each_sequence(g, AD_label_counts(target_lengths, losses), losses, reduction)
                grad log_probs = reshape(_ctc_loss_backward(share, each, targets, input_lengths, target_lengths, losses, alphas, blank, zero_infinity), size(log_probs))
            "),
            (".Tensor +2", "
                each = AD_batched(log_probs)
                losses, alphas = _ctc_loss(each, targets, input_lengths, target_lengths, blank, zero_infinity)
                share = AD_each_sequence(g, type_as(target_lengths, losses), losses, reduction)
                grad log_probs = reshape(_ctc_loss_backward(share, each, targets, input_lengths, target_lengths, losses, alphas, blank, zero_infinity), size(log_probs))
            "),
            ("def AD_label_counts(lengths: int[], like)  1.3 2", "
                -> type_as(tensor(lengths), like)
            "),
            ("def AD_each_sequence(grad, counts, losses, reduction: int)  1.3 2", "
                -> expand_as(if reduction == 1 { -> grad / (clamp_min(counts, 1) * numel(losses)) } else { -> grad }, losses)
            "),
            // A single sequence is a batch of one.
            ("def AD_batched(self)  1.3 2", "
                -> if dim(self) == 2 { -> unsqueeze(self, 1) } else { -> self }
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.shaped(&[
            "5x2x4 zeros:2x1 ints:[5,4] ints:[1,1] int:1 int:0 no",
            "5x2x4 zeros:2x1 ints:[5,4] ints:[1,1] int:1 int:1 no",
        ]).hinted(&[of("log_probs").rank(3), of("targets").rank(2).integers(), of("input_lengths").rank(1).integers(), of("target_lengths").rank(1).integers()])),
    },
    Row {
        kind: "aten::hinge_embedding_loss",
        shape: Has(&[sized(S::Loss(2), E::Settled)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3 +2 until=2.14", "
                share = AD_share(g, reduction, self - target)
                near = __and__(target != 1, self <= margin)
                grad self = _grad_sum_to_size(masked_fill(share, target == -1, 0) - masked_fill(share, near == 0, 0), size(self))
            "),
            ("+2 from=2.14", "
                share = AD_share(g, reduction, self - target)
                near = __and__(target != 1, self < margin)
                grad self = _grad_sum_to_size(masked_fill(share, target == -1, 0) - masked_fill(share, near == 0, 0), size(self))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&["2x3 long:2x3 float:0.5 int:1", "2x3 2x3 float:0.5 int:0"])),
    },
    Row {
        kind: "aten::huber_loss",
        shape: Has(&[sized(S::Loss(2), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "
                apart = self - target
                each = clamp(apart, -delta, delta) * AD_share(g, reduction, apart)
                grad self = _grad_sum_to_size(each, size(self))
                grad target = _grad_sum_to_size(-each, size(target))
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::huber_loss_backward",
        shape: Has(&[sized(S::Broadcast, E::Of("self"))]),
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
        kind: "aten::kl_div",
        shape: Has(&[sized(S::Loss(2), E::Settled)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3 +2 until=1.6", "
                share = AD_share(g, reduction, self - target)
                grad self = _grad_sum_to_size(masked_fill(-target * share, target <= 0, 0), size(self))
                logs = log(masked_fill(target, target <= 0, 1))
                grad target = _grad_sum_to_size(masked_fill((logs + 1 - self) * share, target <= 0, 0), size(target))
            "),
            ("+2 from=1.6 until=1.13", "
                share = AD_share(g, reduction, self - target)
                each = if log_target { -> exp(target) } else { -> masked_fill(target, target <= 0, 0) }
                slope = masked_fill(log(target) + 1 - self, target <= 0, 0)
                there = if log_target { -> exp(target) * (target - self + 1) } else { -> slope }
                grad self = _grad_sum_to_size(-each * share, size(self))
                grad target = _grad_sum_to_size(there * share, size(target))
            "),
            // For a target of 0 eager mode gives NaN from 1.13 on: it divides the target by itself.
            ("+2 from=1.13", "
                share = AD_share(g, reduction, self - target)
                each = if log_target { -> exp(target) } else { -> target }
                there = if log_target { -> exp(target) * (target - self + 1) } else { -> masked_fill(log(target), target == 0, 0) + target / target - self }
                grad self = _grad_sum_to_size(-each * share, size(self))
                grad target = _grad_sum_to_size(there * share, size(target))
            "),
            ("+2 halves from=1.13", "
                share = AD_share(g, reduction, self - target)
                each = if log_target { -> exp(target) } else { -> target }
                there = if log_target { -> (share * (target - self)) * each + share * each } else {
                    -> share * (masked_fill(log(target), target == 0, 0) + target / target - self)
                }
                grad self = _grad_sum_to_size(-(share * each), size(self))
                grad target = _grad_sum_to_size(there, size(target))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&["2x3 2x3 int:0", "2x3 3 int:1", "2x3 2x3 int:1 no", "3 2x3 int:2 yes"])),
    },
    Row {
        kind: "aten::kl_div_backward",
        shape: Has(&[sized(S::Broadcast, E::Of("self"))]),
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
        kind: "aten::l1_loss",
        shape: Has(&[sized(S::Loss(2), E::Settled)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                apart = self - target
                each = sign(apart) * AD_share(g, reduction, apart)
                grad self = _grad_sum_to_size(each, size(self))
                grad target = _grad_sum_to_size(-each, size(target))
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::l1_loss_backward",
        shape: Has(&[sized(S::Broadcast, E::Of("self"))]),
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
        kind: "aten::margin_ranking_loss",
        shape: Has(&[sized(S::Loss(3), E::SettledFloat)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3 +2 until=2.14", "
                apart = input1 - input2
                one, two = AD_ranking(AD_share(g, reduction, target * apart), apart, target, -target * apart + margin >= 0)
                grad input1 = _grad_sum_to_size(-one, size(input1))
                grad input2 = _grad_sum_to_size(one, size(input2))
                grad target = _grad_sum_to_size(-two, size(target))
            "),
            ("+2 from=2.14", "
                apart = input1 - input2
                one, two = AD_ranking(AD_share(g, reduction, target * apart), apart, target, -target * apart + margin > 0)
                grad input1 = _grad_sum_to_size(-one, size(input1))
                grad input2 = _grad_sum_to_size(one, size(input2))
                grad target = _grad_sum_to_size(-two, size(target))
            "),
            // The distance missing to the margin; at the margin itself eager mode has no gradient
            // from 2.14 on.
            ("def AD_ranking(grad, apart, target, counts)  1.3 2", "
                -> masked_fill(grad, counts == 0, 0) * target, masked_fill(grad, counts == 0, 0) * apart
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::mse_loss",
        shape: Has(&[sized(S::Loss(2), E::Settled)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                apart = self - target
                each = apart * 2 * AD_share(g, reduction, apart)
                grad self = _grad_sum_to_size(each, size(self))
                grad target = _grad_sum_to_size(-each, size(target))
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::mse_loss_backward",
        shape: Has(&[sized(S::Broadcast, E::Of("self"))]),
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
        kind: "aten::multi_margin_loss",
        shape: Has(&[sized(S::ClassLoss, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // By how much the score of each other class violates the margin to that of the target.
            ("+1.3 +2", "
                classes = size(self)[-1]
                rows = reshape(self, [-1, classes])
                right = reshape(target, [-1, 1])
                excess = clamp_min(rows - gather(rows, 1, right) + margin, 0)
                steep = if Float(p) == 1. { -> type_as(excess > 0, rows) } else { -> excess * 2 }
                others = scatter(steep, 1, right, 0)
                weighed = if __is__(weight, None) { -> others } else {
                    -> others * reshape(index_select(prim::unchecked_unwrap_optional(weight), 0, reshape(target, [-1])), [-1, 1])
                }
                share = if reduction == 0 { -> reshape(g, [-1, 1]) } else if reduction == 1 { -> g / size(rows)[0] } else { -> g }
                each = weighed * share / classes
                grad self = reshape(scatter_add(each, 1, right, -sum(each, [1], True)), size(self))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "4x2 long:4 int:1 int:1 none int:1",
            "4x2 long:4 int:2 float:0.5 2 int:0",
            "3 long:1 int:2 float:0.5 3 int:2",
        ]).hinted(&[of("target").rank(1).integers()])),
    },
    Row {
        kind: "aten::multilabel_margin_loss",
        shape: Has(&[sized(S::RowLoss, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3 +2", "grad self = AD_multilabel_backward(g, self, target, reduction)"),
            // Each of the other classes may violate the margin to each of the target classes, which
            // are listed before the first negative index.
            ("def AD_multilabel_backward(grad, self, target, reduction: int)  1.3 2", "
                classes = size(self)[-1]
                rows = reshape(self, [-1, classes])
                places = reshape(target, [-1, classes])
                counted = cumprod(type_as(places >= 0, rows), 1)
                right = clamp_min(places, 0)
                others = type_as(scatter_add(zeros_like(rows), 1, right, counted) == 0, rows)
                excess = unsqueeze(rows, 1) - unsqueeze(gather(rows, 1, right), 2) + 1
                each = type_as(excess > 0, rows) * unsqueeze(counted, 2) * unsqueeze(others, 1)
                share = if reduction == 0 { -> reshape(grad, [-1, 1]) } else if reduction == 1 { -> grad / size(rows)[0] } else { -> grad }
                found = scatter_add(sum(each, [1]), 1, right, -sum(each, [2]))
                -> reshape(found * share / classes, size(self))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&["4x3 long:4x3 int:0", "4x3 long:4x3 int:1", "3 long:3 int:2"])),
    },
    Row {
        kind: "aten::nll_loss",
        shape: Has(&[sized(S::ClassLoss, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("1.3 2", "
                result, total_weight := nll_loss_forward(self, target, weight, reduction, ignore_index)
                grad self = nll_loss_backward(g, self, target, weight, reduction, ignore_index, total_weight)
            ")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "4x3 long:4 3 int:0 int:1",
            "4x3 long:4 none int:1 int:-100",
            "4x3 long:4 3 int:2 int:-100",
        ]).hinted(&[of("target").rank(1).integers()])),
    },
    Row {
        kind: "aten::nll_loss2d",
        shape: Has(&[sized(S::ClassLoss, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                rows = AD_classes_last(self)
                flat = reshape(target, [-1])
                loss, total = nll_loss_forward(rows, flat, weight, reduction, ignore_index)
                grad self = AD_classes_back(nll_loss_backward(AD_of_rows(g, reduction), rows, flat, weight, reduction, ignore_index, total), self)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "4x3x2x2 long:4x2x2 3 int:0 int:1",
            "4x3x2x2 long:4x2x2 none int:1 int:-100",
        ]).hinted(&[of("self").rank(4), of("target").rank(3).integers()])),
    },
    Row {
        kind: "aten::nll_loss2d_backward",
        shape: Has(&[sized(S::Of("self"), E::Of("self"))]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.shaped(&["2x2x2 2x3x2x2 long:2x2x2 3 int:0 int:-100 scalar"])),
    },
    Row {
        kind: "aten::nll_loss2d_forward",
        shape: Has(&[sized(S::Each(&[S::ClassLoss, S::Scalar]), E::Same)]),
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
        kind: "aten::nll_loss_backward",
        shape: Has(&[sized(S::Of("self"), E::Of("self"))]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                loss, total = nll_loss_forward(g, target, weight, if reduction == 1 { -> 2 } else { -> reduction }, ignore_index)
                grad grad_output = if reduction == 1 { -> loss / total_weight } else { -> loss }
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&[
            "4 4x3 long:4 3 int:0 int:-100 scalar",
            "scalar 4x3 long:4 none int:2 int:-100 scalar",
        ])),
    },
    Row {
        kind: "aten::nll_loss_forward",
        shape: Has(&[sized(S::Each(&[S::ClassLoss, S::Scalar]), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                grad self = if prim::AutogradAnyNonZero(g0) {
                    -> nll_loss_backward(g0, self, target, weight, reduction, ignore_index, result1)
                } else { -> zeros_like(self) }
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&["4x3 long:4 3 int:1 int:-100", "4x3 long:4 none int:0 int:1"])),
    },
    Row {
        kind: "aten::nll_loss_nd",
        shape: Has(&[sized(S::ClassLoss, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2", "
                rows = AD_classes_last(self)
                flat = reshape(target, [-1])
                loss, total = nll_loss_forward(rows, flat, weight, reduction, ignore_index)
                grad self = AD_classes_back(nll_loss_backward(AD_of_rows(g, reduction), rows, flat, weight, reduction, ignore_index, total), self)
            "),
            ("+2 halves", "
                each = AD_class_of_halves(AD_of_rows(g, reduction), AD_classes_last(self), reshape(target, [-1]), weight, reduction, ignore_index)
                grad self = AD_classes_back(each, self)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "4x3x2x2 long:4x2x2 3 int:0 int:1",
            "4x3 long:4 3 int:1 int:-100",
            "4x3x5 long:4x5 3 int:2 int:-100",
        ]).hinted(&[of("target").integers()])),
    },
    Row {
        kind: "aten::poisson_nll_loss",
        shape: Has(&[sized(S::Loss(2), E::SettledFloat)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3 +2", "
                share = AD_share(g, reduction, input - target)
                each = if log_input { -> exp(input) - target } else { -> 1 - target / (input + eps) }
                grad input = _grad_sum_to_size(each * share, size(input))
                logs = if log_input { -> -input } else { -> -log(input + eps) }
                more = if full { -> AD_stirling(target) } else { -> zeros_like(target) }
                grad target = _grad_sum_to_size((logs + more) * share, size(target))
            "),
            // The additional term of a full loss: 1.3 computes no gradient of it, and for a target
            // of 0 later releases give NaN.
            ("def AD_stirling(target)  1.3 until=1.4", "
                -> zeros_like(target)
            "),
            ("def AD_stirling(target)  1.3 2 from=1.4", "
                -> masked_fill(log(target) + 0.5 / target, target <= 1, 0) + zeros_like(target) / target
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "2x3 2x3 yes yes float:0.1 int:0",
            "2x3 2x3 no no float:0.1 int:1",
            "2x3 3 no yes float:0.5 int:2",
        ])),
    },
    Row {
        kind: "aten::smooth_l1_loss",
        shape: Has(&[sized(S::Loss(2), E::Settled)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3", "
                apart = self - target
                each = clamp(apart, -1, 1) * AD_share(g, reduction, apart)
                grad self = _grad_sum_to_size(each, size(self))
                grad target = _grad_sum_to_size(-each, size(target))
            "),
            ("+2", "
                apart = self - target
                share = AD_share(g, reduction, apart)
                grad self = _grad_sum_to_size(AD_smooth_slope(apart, beta) * share, size(self))
                grad target = _grad_sum_to_size(AD_smooth_slope(-apart, beta) * share, size(target))
            "),
            // With `beta` 0 eager mode treats equal elements as too small, in the gradients of
            // both operands.
            ("def AD_smooth_slope(apart, beta: float)  2 until=1.13", "
                -> if beta == 0. { -> sign(apart) } else { -> clamp(apart / beta, -1, 1) }
            "),
            ("def AD_smooth_slope(apart, beta: float)  2 from=1.13", "
                -> if beta == 0. { -> sign(apart) - type_as(apart == 0, apart) } else { -> clamp(apart / beta, -1, 1) }
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::smooth_l1_loss_backward",
        shape: Has(&[sized(S::Broadcast, E::Of("self"))]),
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
        kind: "aten::soft_margin_loss",
        shape: Has(&[sized(S::Loss(2), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                margin = target * self
                each = -AD_share(g, reduction, margin) * sigmoid(-margin)
                grad self = _grad_sum_to_size(each * target, size(self))
                grad target = _grad_sum_to_size(each * self, size(target))
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::triplet_margin_loss",
        shape: Has(&[sized(S::DistanceLoss, E::Distance)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3 +2", "
                apart1 = anchor - positive + eps
                apart2 = anchor - negative + eps
                apart3 = positive - negative + eps
                dims = AD_distance_dims(apart1)
                near = norm(apart1, p, dims, False)
                direct = norm(apart2, p, dims, False)
                between = norm(apart3, p, dims, False)
                far = if swap { -> where(direct <= between, direct, between) } else { -> direct }
                share = AD_share(g, reduction, near - far)
                to_near, to_far, to_between = AD_triplet(share, AD_too_near(near, far, margin), direct, between, swap)
                one = AD_norm_of_dims(to_near, apart1, near, p, dims, False)
                two = AD_norm_of_dims(to_far, apart2, direct, p, dims, False)
                three = AD_norm_of_dims(to_between, apart3, between, p, dims, False)
                grad anchor = _grad_sum_to_size(one, size(anchor)) + _grad_sum_to_size(two, size(anchor))
                grad positive = _grad_sum_to_size(-one, size(positive)) + _grad_sum_to_size(three, size(positive))
                grad negative = _grad_sum_to_size(-two, size(negative)) + _grad_sum_to_size(-three, size(negative))
            "),
            ("+2 halves", "
                apart1 = anchor - positive + eps
                apart2 = anchor - negative + eps
                apart3 = positive - negative + eps
                dims = AD_distance_dims(apart1)
                near = AD_norm_of_floats(apart1, norm(apart1, p, dims, False), p, dims, False)
                direct = AD_norm_of_floats(apart2, norm(apart2, p, dims, False), p, dims, False)
                between = AD_norm_of_floats(apart3, norm(apart3, p, dims, False), p, dims, False)
                far = if swap { -> where(direct <= between, direct, between) } else { -> direct }
                share = AD_share(g, reduction, near - far)
                to_near, to_far, to_between = AD_triplet(share, AD_too_near(near, far, margin), direct, between, swap)
                one = AD_norm_of_dims(to_near, apart1, near, p, dims, False)
                two = AD_norm_of_dims(to_far, apart2, direct, p, dims, False)
                three = if swap { -> AD_norm_of_dims(to_between, apart3, between, p, dims, False) } else { -> zeros_like(apart3) }
                grad anchor = _grad_sum_to_size(one, size(anchor)) + _grad_sum_to_size(two, size(anchor))
                grad positive = _grad_sum_to_size(-one, size(positive)) + _grad_sum_to_size(three, size(positive))
                grad negative = _grad_sum_to_size(-two, size(negative)) + _grad_sum_to_size(-three, size(negative))
            "),
            // The weights of the three distances of a triplet loss: to the positive, to the
            // negative, and between both, which may replace the latter.
            ("def AD_triplet(grad, counts, direct, between, swap: bool)  1.3 2 until=1.10", "
                kept = masked_fill(grad, counts == 0, 0)
                shared = if swap { -> masked_fill(kept, direct >= between, 0) } else { -> kept }
                -> kept, -shared, shared - kept
            "),
            ("def AD_triplet(grad, counts, direct, between, swap: bool)  2 from=1.10", "
                kept = masked_fill(grad, counts == 0, 0)
                shared = if swap { -> masked_fill(where(direct == between, kept / 2, kept), direct > between, 0) } else { -> kept }
                -> kept, -shared, shared - kept
            "),
            ("def AD_too_near(near, far, margin: float)  1.3 2 until=2.14", "
                -> near + margin - far >= 0
            "),
            ("def AD_too_near(near, far, margin: float)  2 from=2.14", "
                -> near + margin - far > 0
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "4x3 4x3 4x3 float:1. float:2. float:0.001 no int:0",
            "4x3 4x3 4x3 float:0.5 float:3. float:0.001 yes int:1",
            "4x3 1x3 4x1 float:0.5 float:1.5 float:0. yes int:2",
            "3 3 3 float:1. float:1. float:0.001 yes int:1",
        ])),
    },
    Row {
        kind: "aten::multilabel_margin_loss_forward",
        shape: Has(&[sized(S::Each(&[S::RowLoss, S::Of("target")]), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                grad self = if prim::AutogradAnyNonZero(g0) {
                    -> AD_multilabel_backward(g0, self, target, reduction)
                } else { -> zeros_like(self) }
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&["4x3 long:4x3 int:0", "4x3 long:4x3 int:1", "3 long:3 int:2"])),
    },
];
