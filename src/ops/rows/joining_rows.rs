//! Rows of the operator table: tensors joined into one.

use super::Row;
use super::vocabulary::*;

/// No kernel computes them.
const OUTSIDE: &str = "kernels of groups join no tensors: the fuser moves it, or the interpreter runs it";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::block_diag",
        shape: Has(&[sized(S::BlockDiagonal, E::Promoted)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::cartesian_prod",
        shape: Has(&[sized(S::CartesianProduct, E::Promoted)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::cat",
        shape: Has(&[sized(S::Concatenated, E::Promoted).reported_as(SIZES).with("dim")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[(
            "1.3 2 linear",
            "
                keep sizes = for i < len(tensors) with sizes = mul([0], len(tensors)) {
                    there = size(tensors[i])
                    kept = if there != [0] { at = _set_item(sizes, i, there[dim]) -> True } else { -> False }
                    -> sizes
                }
                grad tensors = split_with_sizes(g, sizes, dim)
            ",
        )]),
        guard: Has(redundant(Settled::ByList).outputs_recorded(PLAIN)),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.reads_list_only()),
        python: Has(TORCH),
        operands: Has(GENERATED.forwarding(true, true)),
    },
    Row {
        kind: "aten::column_stack",
        shape: Has(&[sized(S::Columnar, E::Promoted)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::combinations",
        shape: Has(&[sized(S::Combined, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::concat",
        shape: Has(&[sized(S::Concatenated, E::Promoted).with("dim")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "grad tensors = split_with_sizes(g, AD_sizes_along(tensors, dim), dim)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::concatenate",
        shape: Has(&[sized(S::Concatenated, E::Promoted).with("dim")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "grad tensors = split_with_sizes(g, AD_sizes_along(tensors, dim), dim)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::dstack",
        shape: Has(&[sized(S::Joined(3), E::Promoted)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[(
            "+2",
            "
                sizes = for k < len(tensors) with all = slice([0], 0, 0, 1) {
                    -> all + [if dim(tensors[k]) < 3 { -> 1 } else { -> size(tensors[k])[2] }]
                }
                grad tensors = AD_pieces(g, tensors, sizes, 2)
            ",
        )]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.reads_list_only()),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::hstack",
        shape: Has(&[sized(S::Joined(1), E::Promoted)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[(
            "+2",
            "
                across = if dim(tensors[0]) < 2 { -> 0 } else { -> 1 }
                sizes = for k < len(tensors) with all = slice([0], 0, 0, 1) {
                    -> all + [if across == 0 { -> numel(tensors[k]) } else { -> size(tensors[k])[1] }]
                }
                grad tensors = AD_pieces(g, tensors, sizes, across)
            ",
        )]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.reads_list_only()),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["list:double:2x3,double:2x1", "list:double:2,double:,double:3"])),
    },
    Row {
        kind: "aten::meshgrid",
        shape: Has(&[sized(S::Meshed, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            (
                "1.3 2",
                "
                grad tensors = for i < len(gs) with all = slice(gs, 0, 0, 1) {
                    sizes = mul([1], len(gs))
                    at = _set_item(sizes, i, size(gs[i])[i])
                    -> all + [reshape(_grad_sum_to_size(gs[i], sizes), size(tensors[i]))]
                }
            ",
            ),
            // Two axes may have been swapped.
            (
                ".indexing +2",
                r#"
                grad tensors = for i < len(gs) with all = slice(gs, 0, 0, 1) {
                    turned = if len(gs) > 1 { -> if indexing == "xy" { -> i < 2 } else { -> False } } else { -> False }
                    along = if turned { -> 1 - i } else { -> i }
                    sizes = mul([1], len(gs))
                    at = _set_item(sizes, along, numel(tensors[i]))
                    -> all + [reshape(_grad_sum_to_size(gs[i], sizes), size(tensors[i]))]
                }
            "#,
            ),
        ]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED
            .called(&[
                "list:double:2,double:3 text:\"xy\"",
                "list:double:2,double:3,double:2 text:\"ij\"",
                "list:double:2 text:\"xy\"",
            ])
            .shaped(&["list:2,3"])),
    },
    Row {
        kind: "aten::row_stack",
        shape: Has(&[sized(S::Joined(2), E::Promoted)]),
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
        kind: "aten::stack",
        shape: Has(&[sized(S::Stacked, E::Promoted)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("1.3 2 linear", "grad tensors = unbind(g, dim)")]),
        guard: Has(kept().outputs_recorded(PLAIN)),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.reads_list_only()),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::vstack",
        shape: Has(&[sized(S::Joined(2), E::Promoted)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[(
            "+2",
            "
                sizes = for k < len(tensors) with all = slice([0], 0, 0, 1) {
                    -> all + [if dim(tensors[k]) < 2 { -> 1 } else { -> size(tensors[k])[0] }]
                }
                grad tensors = AD_pieces(g, tensors, sizes, 0)
            ",
        )]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.reads_list_only()),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["list:double:2x3,double:1x3", "list:double:3,double:2x3"])),
    },
];
