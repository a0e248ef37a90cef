//! Rows of the operator table: what reads or writes by indices and masks.

use super::Row;
use super::vocabulary::*;
use crate::ops::shape_rules::When;

/// No kernel computes them.
const OUTSIDE: &str = "kernels of groups read no indices: the interpreter runs it";
/// The gradient of `aten::_embedding_bag` and `aten::embedding_bag`.
const EMBEDDING_BAG_GRADIENT: &str = "
    bags = AD_bags(indices, offsets, size(g0)[0])
    grad weight = AD_bagged_backward(g0, weight, indices, bags, result3, per_sample_weights, mode, scale_grad_by_freq, -1)
    grad per_sample_weights = AD_bag_weights_backward(g0, weight, indices, bags, -1)
";

/// The gradient of `aten::_unsafe_index_put` and `aten::index_put`.
const UNSAFE_INDEX_PUT_GRADIENT: &str = "
    grad self = if accumulate { -> g } else { -> index_put(g, indices, zeros_like(values), False) }
    grad values = _grad_sum_to_size(index(g, indices) + zeros_like(values), size(values))
";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::_embedding_bag",
        shape: Has(&[sized(S::Each(&[S::Bags, S::Unreported, S::Unreported, S::Unreported]), E::Each(&[E::Same, E::Long, E::Long, E::Long])).by_values("all results but the first depend on the selected kernel")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3", EMBEDDING_BAG_GRADIENT),
            ("+2", "
                bags = AD_bags(indices, offsets, size(g0)[0])
                grad weight = AD_bagged_backward(g0, weight, indices, bags, result3, per_sample_weights, mode, scale_grad_by_freq, padding_idx)
                grad per_sample_weights = AD_bag_weights_backward(g0, weight, indices, bags, padding_idx)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "2x3 long:5 zeros:1 no int:0 no 5",
            "2x3 long:5 zeros:2 no int:1 no none",
            "2x3 long:5 zeros:2 no int:2 no none",
            "2x3 long:5 zeros:2 no int:1 no none no int:1",
            "2x3 long:5 zeros:1 no int:0 no 5 no int:-1",
        ])),
    },
    Row {
        kind: "aten::_embedding_bag_forward_only",
        shape: Has(&[sized(S::Each(&[S::Bags, S::Unreported, S::Unreported, S::Unreported]), E::Each(&[E::Same, E::Long, E::Long, E::Long])).by_values("all results but the first depend on the selected kernel")]),
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
        kind: "aten::_unsafe_index",
        shape: Has(&[sized(S::Indexed, E::Same).by_values_when(When::Masked, "the result has one entry per true element of a mask")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // Indices are Long, masks, and None for dimensions that are kept.
            (".Tensor .Tensor_hacked_twin +2", "grad self = index_put(zeros_like(self), indices, g, True)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3 list:long:5", "4x3x2 list:long:3,none,long:3"])),
    },
    Row {
        kind: "aten::_unsafe_index_put",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2", UNSAFE_INDEX_PUT_GRADIENT),
            (".hacked_twin +2", UNSAFE_INDEX_PUT_GRADIENT),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3 list:long:3 1x3 yes", "4x3 list:none,long:1 4x1 no"])),
    },
    Row {
        kind: "aten::argwhere",
        shape: Has(&[sized(S::Counted(2), E::Long).detached().by_values("the result has one entry per non-zero element")]),
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
        kind: "aten::as_strided_scatter",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.touching(Touch::CheckedView)),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::diagonal_backward",
        shape: Has(&[sized(S::Listed("input_sizes"), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.shaped(&[
            "3 ints:[3,4] int:0 int:0 int:1",
            "2x3 ints:[4,2,3] int:1 int:0 int:-1",
        ])),
    },
    Row {
        kind: "aten::diagonal_scatter",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "
                grad self = diagonal_scatter(g, zeros_like(src), offset, dim1, dim2)
                grad src = diagonal(g, offset, dim1, dim2)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::embedding",
        shape: Has(&[sized(S::Embedded, E::Same).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("1.3 2", "
                keep weight_size_0 = size(weight)[0]
                grad weight = embedding_backward(g, indices, weight_size_0, padding_idx, scale_grad_by_freq, sparse)
            ")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&["2x3 long:4 int:-1 no no", "3x2 long:4x2 int:-1 no no"]).hinted(&[of("weight").rank(2), of("indices").integers()])),
    },
    Row {
        kind: "aten::embedding_backward",
        shape: Has(&[sized(S::TableGradient, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "grad grad = AD_looked_up(g, indices, padding_idx, grad)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&["4x2 long:4 int:2 int:-1 no no", "2x3x2 long:2x3 int:3 int:1 no no"])),
    },
    Row {
        kind: "aten::embedding_bag",
        shape: Has(&[sized(S::Each(&[S::Bags, S::Unreported, S::Unreported, S::Unreported]), E::Each(&[E::Same, E::Long, E::Long, E::Long])).by_values("all results but the first depend on the selected kernel")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3", EMBEDDING_BAG_GRADIENT),
            ("+2", "
                bags = AD_bags(indices, offsets, size(g0)[0])
                grad weight = AD_bagged_backward(g0, weight, indices, bags, result3, per_sample_weights, mode, scale_grad_by_freq, -1)
                grad per_sample_weights = AD_bag_weights_backward(g0, weight, indices, bags, -1)
            "),
            (".padding_idx +2", "
                bags = AD_bags(indices, offsets, size(g0)[0])
                padding = AD_padding(padding_idx, weight)
                grad weight = AD_bagged_backward(g0, weight, indices, bags, result3, per_sample_weights, mode, scale_grad_by_freq, padding)
                grad per_sample_weights = AD_bag_weights_backward(g0, weight, indices, bags, padding)
            "),
            // The index of the padding row may be counted from the end.
            ("def AD_padding(padding_idx: int?, weight)  2", "
                -> if __is__(padding_idx, None) { -> -1 } else {
                    row = prim::unchecked_cast(padding_idx)
                    -> if row < 0 { -> row + size(weight)[0] } else { -> row }
                }
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "2x3 long:5 zeros:1 no int:0 no none",
            "2x3 long:5 zeros:2 no int:1 no none",
            "2x3 long:5 zeros:2 no int:2 no none",
            "2x3 long:5 zeros:1 no int:0 no 5",
            "2x3 long:5 zeros:1 no int:0 no 5 no",
            "2x3 long:5 zeros:2 no int:1 no none no",
            "2x3 long:5 zeros:2 no int:2 no none no",
            "2x3 long:5 zeros:1 no int:0 no 5 no int:1",
            "2x3 long:5 zeros:2 no int:1 no none no int:-2",
            "2x3 long:5 zeros:2 no int:2 no none no none",
        ]).hinted(&[of("weight").rank(2), of("indices").integers(), of("offsets").rank(1).integers()])),
    },
    Row {
        kind: "aten::embedding_dense_backward",
        shape: Has(&[sized(S::TableGradient, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "grad grad_output = AD_looked_up(g, indices, padding_idx, grad_output)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&["2x3x2 long:2x3 int:3 int:1 no"])),
    },
    Row {
        kind: "aten::gather",
        shape: Has(&[sized(S::AsIndex, E::Same).reported_as(RANK).with("sparse_grad")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "grad self = scatter_add(zeros_like(self), dim, index, g)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.hinted(&[of("index").integers()])),
    },
    Row {
        kind: "aten::index",
        shape: Has(&[sized(S::Indexed, E::Same).by_values_when(When::Masked, "the result has one entry per true element of a mask").with("indices")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            (".Tensor:indices 1.3", "grad self = index_put_(zeros_like(self), indices, g, True)"),
            (".Tensor_hacked_twin 2", "grad self = index_put_(zeros_like(self, memory_format=1), indices, g, True)"),
            // Indices are Long, masks, and None for dimensions that are kept.
            (".Tensor +2", "grad self = index_put(zeros_like(self), indices, g, True)"),
        ]),
        guard: Has(kept().recorded(&["Tensor_hacked_twin"])),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&[
            "4x3 list:long:1",
            "4x3 list:long:2x3",
            "4x3 list:long:3,long:3",
            "4x3 list:bool:4x3",
            "4x3x2 list:none,long:3",
            "4x3x2 list:long:2x1,none,long:2",
            "4x3x2 list:none,bool:3,long:1",
        ]).shaped(&[
            "4x3x2 list:none,long:3",
            "4x3x2 list:long:2x1,none,long:3",
            "4x3x2 list:bool:4",
        ]).hinted(&[of("indices").integers()])),
    },
    Row {
        kind: "aten::index_add",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            (":alpha +2", "
                grad self = g
                grad source = expand_as(index_select(g, dim, index), source) * alpha
            "),
            ("+1.3 +2", "
                grad self = g
                grad source = expand_as(index_select(g, dim, index), source)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.of_first()),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3 int:0 long:2 2x3", "4x3 int:1 long:3 4x3 float:1.5"]).hinted(&[of("index").rank(1).integers()])),
    },
    Row {
        kind: "aten::index_copy",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                grad self = index_fill(g, dim, index, 0)
                grad source = expand_as(index_select(g, dim, index), source)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.of_first()),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3 int:0 long:1 1x3"]).hinted(&[of("index").rank(1).integers()])),
    },
    Row {
        kind: "aten::index_fill",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            (".Scalar +1.3", "grad self = index_fill(g, dim, index, 0)"),
            (".int_Scalar +2", "grad self = index_fill(g, dim, index, 0)"),
            (".Tensor +1.3", "
                left = index_fill(g, dim, index, 0)
                grad self = left
                grad value = reshape(sum(g - left), size(value))
            "),
            (".int_Tensor +2", "
                left = index_fill(g, dim, index, 0)
                grad self = left
                grad value = reshape(sum(g - left), size(value))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.of_first()),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&["4x3 int:1 longs:0,1 float:0.5", "4x3 int:0 longs:0,1 scalar"]).hinted(&[of("index").rank(1).integers()])),
    },
    Row {
        kind: "aten::index_put",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+1.3 +2", "
                grad self = if accumulate { -> g } else { -> index_put(g, indices, zeros_like(values), False) }
                grad values = _grad_sum_to_size(index(g, indices) + zeros_like(values), size(values))
            "),
            (".hacked_twin +2", UNSAFE_INDEX_PUT_GRADIENT),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.of_first()),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "4x3 list:long:1 1x3 no",
            "4x3 list:long:1 3 yes",
            "4x3 list:bool:4 scalar no",
            "4x3x2 list:none,long:1 4x1x2 no",
            "4x3x2 list:long:2x1,none,long:2 2x2x3 yes",
        ]).hinted(&[of("indices").integers()])),
    },
    Row {
        kind: "aten::index_reduce",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // Converts an index of slices to an index of elements.
            ("+2", "
                along = if dim < 0 { -> dim + dim(self) } else { -> dim }
                rest = dim(source) - 1 - along
                slices = expand(reshape(index, mul([1], along) + [-1] + mul([1], rest)), size(source))
                before, each = AD_scattered_backward(g, self, dim, slices, source, result, reduce, include_self)
                grad self = if include_self { -> before } else { -> index_fill(before, dim, index, 0) }
                grad source = each
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "4x3 int:0 longs:1,1,3 3x3 text:\"prod\" yes",
            "4x3 int:0 longs:1,1,3 3x3 text:\"prod\" no",
            "4x3 int:0 longs:1,1,3 3x3 text:\"mean\" yes",
            "4x3 int:0 longs:1,1,3 3x3 text:\"mean\" no",
            "4x3 int:0 longs:1,1,3 3x3 text:\"amax\" yes",
            "4x3 int:0 longs:1,1,3 3x3 text:\"amax\" no",
            "4x3 int:0 longs:1,1,3 3x3 text:\"amin\" yes",
            "4x3 int:0 longs:1,1,3 3x3 text:\"amin\" no",
            "4x3 int:0 longs:1,1,3 3x3 text:\"prod\" yes",
            "4x3 int:0 longs:1,1,3 3x3 text:\"prod\" no",
        ]).hinted(&[of("index").rank(1).integers()])),
    },
    Row {
        kind: "aten::index_select",
        shape: Has(&[sized(S::SizedBy(&[("index", 0)]), E::Same).reported_as(SIZES)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "grad self = index_add(zeros_like(self), dim, index, g)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.hinted(&[of("index").rank(1).integers()])),
    },
    Row {
        kind: "aten::isin",
        shape: Has(&[
            sized(S::OfOrNumber("elements"), E::Bool).detached().with("element"),
            sized(S::OfOrNumber("elements"), E::Bool).detached().with("elements"),
        ]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[(".Tensor_Tensor +2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::masked_scatter",
        shape: Has(&[sized(S::BroadcastFirst(2), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                grad self = _grad_sum_to_size(masked_fill(g, mask, 0), size(self))
                picked = masked_select(g, mask)
                grad source = AD_put_back(picked, narrow(reshape(AD_places(source), [-1]), 0, 0, numel(picked)), source)
            ")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.of_first()),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x3 bool:2x3 3x3", "3 bool:2x3 6"]).hinted(&[of("mask").bools()])),
    },
    Row {
        kind: "aten::masked_select",
        shape: Has(&[sized(S::Counted(1), E::Same).reported_as(RANK).by_values("the result has one entry per true element of the mask")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "grad self = AD_put_back(g, masked_select(AD_places(self), mask), self)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.hinted(&[of("mask").bools()])),
    },
    Row {
        kind: "aten::nonzero",
        shape: Has(&[sized(S::Counted(2), E::Long).reported_as(RANK).detached().by_values("the result has one entry per non-zero element")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("1.3 2 none", "")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::nonzero_numpy",
        shape: Has(&[sized(S::Unreported, E::Long).by_values("the result has one entry per non-zero element")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(INTEGRAL),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::nonzero_static",
        shape: Has(&[sized(S::Places, E::Long).detached()]),
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
        kind: "aten::put",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.of_first()),
        python: Has(TORCH),
        operands: Has(GENERATED.hinted(&[of("index").integers()])),
    },
    Row {
        kind: "aten::repeat_interleave",
        shape: Has(&[
            sized(S::Interleaved, E::Same).by_values_when(When::Tensor("repeats"), "the size is the sum of `repeats`").with("self"),
            sized(S::Counted(1), E::Same).by_values("the size is the sum of `repeats`"),
        ]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[(".self_int +1.3 +2", "grad self = AD_put_back(g, repeat_interleave(AD_places(self), repeats, dim), self)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.hinted(&[of("repeats").rank(1).integers()])),
    },
    Row {
        kind: "aten::scatter",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            (".src +1.3 +2", "
                grad self = scatter(g, dim, index, 0)
                grad src = gather(g, dim, index)
            "),
            (".value +1.3 +2", "grad self = scatter(g, dim, index, 0)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.of_first()),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3 int:0 long:1x3 1x3", "4x3 int:1 long:4x1 float:0.5"]).hinted(&[of("index").integers()])),
    },
    Row {
        kind: "aten::scatter_add",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                grad self = g
                grad src = gather(g, dim, index)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.of_first()),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3 int:0 long:2x3 2x3"]).hinted(&[of("index").integers()])),
    },
    Row {
        kind: "aten::scatter_reduce",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[(".two +2", "
                before, each = AD_scattered_backward(g, self, dim, index, src, result, reduce, include_self)
                grad self = if include_self { -> before } else { -> scatter(before, dim, index, 0) }
                grad src = reshape(each, size(src))
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.of_first()),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "4x3 int:0 long:2x3 2x3 text:\"sum\" yes",
            "4x3 int:0 long:2x3 2x3 text:\"sum\" no",
            "2x3 int:-1 long:2x2 2x2 text:\"sum\" yes",
            "4x3 int:0 long:2x3 2x3 text:\"mean\" yes",
            "4x3 int:0 long:2x3 2x3 text:\"mean\" no",
            "2x3 int:-1 long:2x2 2x2 text:\"mean\" yes",
            "4x3 int:0 long:2x3 2x3 text:\"amax\" yes",
            "4x3 int:0 long:2x3 2x3 text:\"amax\" no",
            "2x3 int:-1 long:2x2 2x2 text:\"amax\" yes",
            "4x3 int:0 long:2x3 2x3 text:\"amin\" yes",
            "4x3 int:0 long:2x3 2x3 text:\"amin\" no",
            "2x3 int:-1 long:2x2 2x2 text:\"amin\" yes",
            "4x3 int:0 long:2x3 2x3 text:\"prod\" yes",
            "4x3 int:0 long:2x3 2x3 text:\"prod\" no",
            "2x3 int:-1 long:2x2 2x2 text:\"prod\" yes",
        ]).hinted(&[of("index").integers()])),
    },
    Row {
        kind: "aten::select_backward",
        shape: Has(&[sized(S::Listed("input_sizes"), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "grad grad_output = select(g, dim, index)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&["3 ints:[2,3] int:0 int:1", "2 ints:[2,3] int:-1 int:-2"])),
    },
    Row {
        kind: "aten::select_scatter",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "
                grad self = select_scatter(g, zeros_like(src), dim, index)
                grad src = select(g, dim, index)
            ")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::slice_backward",
        shape: Has(&[sized(S::Listed("input_sizes"), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "grad grad_output = slice(g, dim, start, end, step)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&[
            "2x2 ints:[4,2] int:0 int:1 int:3 int:1",
            "2x2 ints:[2,5] int:1 int:0 int:9223372036854775807 int:3",
        ])),
    },
    Row {
        kind: "aten::slice_scatter",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "
                grad self = slice_scatter(g, zeros_like(src), dim, start, end, step)
                grad src = slice(g, dim, start, end, step)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::take",
        shape: Has(&[sized(S::AsIndex, E::Same).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "grad self = AD_put_back(g, take(AD_places(self), index), self)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.hinted(&[of("index").integers()])),
    },
    Row {
        kind: "aten::take_along_dim",
        shape: Has(&[sized(S::TakenAlong, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "grad self = AD_put_back(g, take_along_dim(AD_places(self), indices, dim), self)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.hinted(&[of("indices").integers()])),
    },
    Row {
        kind: "aten::unfold_backward",
        shape: Has(&[sized(S::Listed("input_sizes"), E::Same)]),
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
        kind: "aten::value_selecting_reduction_backward",
        shape: Has(&[sized(S::Listed("sizes"), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "
                grad grad = if if keepdim { -> True } else { -> len(sizes) == 0 } { -> gather(g, dim, indices) } else {
                    -> squeeze(gather(g, dim, unsqueeze(indices, dim)), dim)
                }
            ")]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&[
            "2 int:1 long:2 ints:[2,3] no",
            "1x3 int:-2 long:1x3 ints:[2,3] yes",
            "scalar int:0 zeros: ints:[] no",
        ]).shaped(&["3x1 int:-1 long:3x1 ints:[3,4] yes"]).hinted(&[of("indices").integers()])),
    },
];
