//! Rows of the operator table: views, and operators that return one where they can.

use super::Row;
use super::vocabulary::*;

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::alias",
        shape: Has(&[sized(S::Itself, E::Same).reported_as(RANK)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+2", "grad self = g")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::detach",
        shape: Has(&[sized(S::Itself, E::Same).reported_as(RANK).detached()]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+1.3 +2 none", "")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(TORCH),
        operands: Has(GENERATED.forwarding(true, true)),
    },
    Row {
        kind: "aten::contiguous",
        shape: Has(&[sized(S::Itself, E::Same).reported_as(RANK)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("1.3 2 linear", "grad self = g")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: No(UNNAMED),
        operands: Has(GENERATED.forwarding(true, true)),
    },
    Row {
        kind: "aten::cpu",
        shape: Has(&[sized(S::Itself, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::cuda",
        shape: Has(&[sized(S::Itself, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::pin_memory",
        shape: Has(&[sized(S::Itself, E::Same).reported_as(RANK)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::lift_fresh",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+2", "grad self = g")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::resolve_conj",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+2 linear", "grad self = g")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::resolve_neg",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+2 linear", "grad self = g")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::_conj",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+2 linear", "grad self = conj(g)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::_neg_view",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::_autocast_to_full_precision",
        shape: Has(&[sized(S::Itself, E::FullPrecision)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("2", "
                keep self_dtype = prim::dtype(self)
                grad self = to(g, self_dtype)
            ")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::_autocast_to_reduced_precision",
        shape: Has(&[sized(S::Itself, E::ReducedPrecision)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("2", "
                keep self_dtype = prim::dtype(self)
                grad self = to(g, self_dtype)
            ")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::t",
        shape: Has(&[sized(S::Transposed, E::Same).reported_as(SIZES)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("1.3 2 linear", "grad self = t(g)")]),
        guard: Has(redundant(WITH_NUMBERS).recorded(PLAIN)),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.hinted(&[of("self").rank(2)]).forwarding(true, true)),
    },
    Row {
        kind: "aten::transpose",
        shape: Has(&[sized(S::Transposed, E::Same).reported_as(RANK)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[(".int 1.3 2 view linear", "grad self = transpose(g, dim0, dim1)")]),
        guard: Has(kept().recorded(&["int"])),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.forwarding(true, true)),
    },
    Row {
        kind: "aten::permute",
        shape: Has(&[sized(S::Transposed, E::Same).reported_as(RANK)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[
            ("1.3 2 linear", "grad self = AD_permute_backward(g, dims)"),
            ("def AD_permute_backward(grad, fwd_dims: int[])  1.3 2", "
                ndims = len(fwd_dims)
                dims = mul([0], ndims)
                done = for i < ndims { at = _set_item(dims, fwd_dims[i], i) }
                -> permute(grad, dims)
            "),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.hinted(&[of("self").rank_of_list("dims", 0)]).forwarding(true, true)),
    },
    Row {
        kind: "aten::numpy_T",
        shape: Has(&[sized(S::Transposed, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+1.3 +2 linear", "grad self = numpy_T(g)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::swapaxes",
        shape: Has(&[sized(S::Transposed, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+2 linear", "grad self = swapaxes(g, axis0, axis1)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::swapdims",
        shape: Has(&[sized(S::Transposed, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+2 linear", "grad self = swapdims(g, dim0, dim1)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::mT",
        shape: Has(&[sized(S::Transposed, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+2 linear", "grad self = mT(g)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::mH",
        shape: Has(&[sized(S::Transposed, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::adjoint",
        shape: Has(&[sized(S::Transposed, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::matrix_H",
        shape: Has(&[sized(S::Transposed, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::movedim",
        shape: Has(&[sized(S::Moved, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[(".int .intlist +2 linear", "grad self = movedim(g, destination, source)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&["2x3x4 ints:[0,1] ints:[2,0]"])),
    },
    Row {
        kind: "aten::moveaxis",
        shape: Has(&[sized(S::Moved, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[(".int .intlist +2", "grad self = movedim(g, destination, source)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::view",
        shape: Has(&[
            sized(S::Reshaped, E::Same).reported_as(SIZES).with("size"),
            sized(S::Retyped, E::Same).with("dtype"),
        ]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("1.3 2 view linear", "
                keep self_size = size(self)
                grad self = reshape(g, self_size)
            ")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.reads_strides()),
        python: No(UNNAMED),
        operands: Has(GENERATED.shaped(&["quint8:2x3 ints:[3,-1]"]).forwarding(false, true)),
    },
    Row {
        kind: "aten::view_as",
        shape: Has(&[sized(S::AsOther, E::Same).reported_as(RANK)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+1.3 +2 linear", "
                keep self_size = size(self)
                grad self = reshape(g, self_size)
            ")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0)).reads_strides()),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::reshape",
        shape: Has(&[sized(S::Reshaped, E::Same).reported_as(RANK)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("1.3 2 view linear", "
                keep self_size = size(self)
                grad self = reshape(g, self_size)
            ")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(TORCH),
        operands: Has(GENERATED.forwarding(false, true)),
    },
    Row {
        kind: "aten::reshape_as",
        shape: Has(&[sized(S::AsOther, E::Same).reported_as(RANK)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+1.3 +2 linear", "
                keep self_size = size(self)
                grad self = reshape(g, self_size)
            ")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::_unsafe_view",
        shape: Has(&[sized(S::Reshaped, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::_reshape_alias",
        shape: Has(&[sized(S::Reshaped, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.touching(Touch::CheckedView)),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::as_strided",
        shape: Has(&[sized(S::Reshaped, E::Same).reported_as(RANK)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[
            // Elements that share memory share its gradient; memory outside of the view has none.
            ("+1.3 +2", "
                keep own_size = size(self)
                keep own_stride = AD_strides(self)
                keep own_first = storage_offset(self)
                first = if __is__(storage_offset, None) { -> own_first } else { -> prim::unchecked_cast(storage_offset) }
                own = reshape(AD_memory_places(own_size, own_stride, own_first), [-1])
                seen = reshape(AD_memory_places(size, stride, first), [-1])
                own_end = AD_memory_end(own_size, own_stride, own_first)
                seen_end = AD_memory_end(size, stride, first)
                nothing = zeros([if own_end > seen_end { -> own_end } else { -> seen_end }], dtype=prim::dtype(g))
                sums = index_add(nothing, 0, seen, reshape(g, [-1]))
                often = index_add(nothing, 0, own, ones_like(type_as(own, g)))
                grad self = reshape(index_select(sums / clamp_min(often, 1), 0, own), own_size)
            "),
            // The positions of elements in memory, relative to an offset.
            ("def AD_memory_places(size: int[], stride: int[], first: int)  1.3 2", "
                -> for i < len(size) with places = zeros(size, dtype=4) + first {
                    shape = mul([1], len(size))
                    at = _set_item(shape, i, size[i])
                    -> places + reshape(arange(size[i], dtype=4) * stride[i], shape)
                }
            "),
            ("def AD_memory_end(size: int[], stride: int[], first: int)  1.3 2", "
                -> for i < len(size) with end = first + 1 { -> end + (size[i] - 1) * stride[i] }
            "),
            ("def AD_strides(self)  1.3 2", "
                -> for i < dim(self) with all = slice([0], 0, 0, 1) { -> all + [stride(self, i)] }
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.reads_strides().touching(Touch::CheckedView)),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "2x3 ints:[2,2] ints:[3,1] none",
            "2x3 ints:[2,2] ints:[1,1] int:1",
            "3x2 ints:[3] ints:[0] int:2",
        ])),
    },
    Row {
        kind: "aten::view_as_complex",
        shape: Has(&[sized(S::PairsJoined, E::Complex)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+2 linear", "grad self = view_as_real(g)")]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::view_as_real",
        shape: Has(&[sized(S::PairsSplit, E::Parts)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+2 linear", "grad self = view_as_complex(contiguous(g))")]),
        guard: No(STAYS),
        accuracy: Has(exact()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&[
            "complex:2x3",
            "complex:scalar",
        ])),
    },
    Row {
        kind: "aten::ravel",
        shape: Has(&[sized(S::Raveled, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+2 linear", "
                keep self_size = size(self)
                grad self = reshape(g, self_size)
            ")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::flatten",
        shape: Has(&[sized(S::Flattened, E::Same).with("start_dim")]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[(".using_ints +1.3 +2 linear", "
                keep self_size = size(self)
                grad self = reshape(g, self_size)
            ")]),
        guard: Has(redundant(but_for(&[]))),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(TORCH),
        operands: Has(GENERATED.forwarding(false, true)),
    },
    Row {
        kind: "aten::unflatten",
        shape: Has(&[sized(S::Unflattened, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[(".int +2 linear", "
                keep self_size = size(self)
                grad self = reshape(g, self_size)
            ")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::expand",
        shape: Has(&[sized(S::Expanded, E::Same).reported_as(SIZES)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("1.3 2 view fixed=size,implicit linear", "
                keep self_size = _size_if_not_equal(size(self), size(result))
                grad self = _grad_sum_to_size(g, self_size)
            ")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.forwarding(false, true)),
    },
    Row {
        kind: "aten::expand_as",
        shape: Has(&[sized(S::AsOther, E::Same).reported_as(RANK)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("1.3 2 view linear", "
                keep self_size = _size_if_not_equal(size(self), size(result))
                grad self = _grad_sum_to_size(g, self_size)
            ")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: No(UNNAMED),
        operands: Has(GENERATED.forwarding(false, true)),
    },
    Row {
        kind: "aten::broadcast_to",
        shape: Has(&[sized(S::Expanded, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+2 linear", "grad self = _grad_sum_to_size(g, size(self))")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::broadcast_tensors",
        shape: Has(&[sized(S::EachBroadcast, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+1.3 +2", "
                grad tensors = for i < len(tensors) with all = slice(gs, 0, 0, 1) {
                    -> all + [_grad_sum_to_size(gs[i], size(tensors[i]))]
                }
            ")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::select",
        shape: Has(&[sized(S::Selected, E::Same).reported_as(RANK)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[
            (".int +2 linear", "grad self = select_backward(g, size(self), dim, index)"),
            (".int +1.3", "grad self = AD_put_back(g, select(AD_places(self), dim, index), self)"),
        ]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.forwarding(false, true)),
    },
    Row {
        kind: "aten::slice",
        shape: Has(&[sized(S::Sliced, E::Same).reported_as(RANK).with("dim")]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[
            (".Tensor +2 linear", "
                begin = if __is__(start, None) { -> 0 } else { -> prim::unchecked_cast(start) }
                stop = if __is__(end, None) { -> 9223372036854775807 } else { -> prim::unchecked_cast(end) }
                grad self = slice_backward(g, size(self), dim, begin, stop, step)
            "),
            (".Tensor +1.3", "grad self = AD_put_back(g, slice(AD_places(self), dim, start, end, step), self)"),
        ]),
        guard: Has(redundant(Settled::ByFirst)),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: No(UNNAMED),
        operands: Has(GENERATED.forwarding(true, true)),
    },
    Row {
        kind: "aten::narrow",
        shape: Has(&[sized(S::Sliced, E::Same).reported_as(SIZES).with("length")]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+1.3 +2", "grad self = AD_put_back(g, narrow(AD_places(self), dim, start, length), self)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.forwarding(true, true)),
    },
    Row {
        kind: "aten::unsqueeze",
        shape: Has(&[sized(S::Unsqueezed, E::Same).reported_as(SIZES)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("1.3 2 linear", "grad self = squeeze(g, dim)")]),
        guard: Has(redundant(Settled::ByFirst).recorded(PLAIN)),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.forwarding(false, true)),
    },
    Row {
        kind: "aten::squeeze",
        shape: Has(&[
            sized(S::Squeezed, E::Same).reported_as(ONLY_SIZES).with("dim"),
            sized(S::Squeezed, E::Same),
        ]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[
            ("1.3 2 linear", "
                keep self_size = size(self)
                grad self = AD_unsqueeze_to_0(g, self_size)
            "),
            (".dim 1.3 2 linear", "
                keep self_size = size(self)
                grad self = AD_unsqueeze_to_1(g, dim, self_size)
            "),
            (".dims +2 linear", "
                keep self_size = size(self)
                grad self = reshape(g, self_size)
            "),
            ("def AD_unsqueeze_to_0(self, sizes: int[])  1.3 2", "
                ndims = len(sizes)
                -> for i < ndims with there = self { -> if sizes[i] == 1 { -> unsqueeze(there, i) } else { -> there } }
            "),
            ("def AD_unsqueeze_to_1(self, dim: int, sizes: int[])  1.3 2", "
                -> if if len(sizes) > 0 { -> sizes[dim] == 1 } else { -> False } { -> unsqueeze(self, dim) } else { -> self }
            "),
        ]),
        guard: Has(redundant(but_for(&[])).recorded(&["", "dim"])),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.forwarding(false, true)),
    },
    Row {
        kind: "aten::unfold",
        shape: Has(&[sized(S::Unfolded, E::Same).reported_as(RANK)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+1.3 +2", "grad self = AD_put_back(g, unfold(AD_places(self), dimension, size, step), self)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::diagonal",
        shape: Has(&[sized(S::Diagonal, E::Same).reported_as(RANK)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[("+1.3 +2", "grad self = AD_put_back(g, diagonal(AD_places(self), offset, dim1, dim2), self)")]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::atleast_1d",
        shape: Has(&[
            sized(S::EachAtLeast(1), E::Same).with("tensors"),
            sized(S::AtLeast(1), E::Same).with("self"),
        ]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::atleast_2d",
        shape: Has(&[
            sized(S::EachAtLeast(2), E::Same).with("tensors"),
            sized(S::AtLeast(2), E::Same).with("self"),
        ]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::atleast_3d",
        shape: Has(&[
            sized(S::EachAtLeast(3), E::Same).with("tensors"),
            sized(S::AtLeast(3), E::Same).with("self"),
        ]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::linalg_diagonal",
        shape: Has(&[sized(S::Diagonal, E::Same)]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: Has(&[(
            "+2",
            "grad A = AD_put_back(g, diagonal(AD_places(A), offset, dim1, dim2), A)",
        )]),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&["2x3 int:0 int:-2 int:-1", "2x3x2 int:1 int:0 int:1", "3x2x2 int:-1 int:-1 int:0"])),
    },
    Row {
        kind: "prims::transpose",
        shape: Has(&[sized(S::Transposed, E::Same).spelt(&[("dims", "permutation")])]),
        computation: No(A_VIEW),
        fusion: No(A_VIEW),
        gradient: No("eager mode does not differentiate operators of `prims`"),
        guard: No(STAYS),
        accuracy: Has(moved()),
        semantics: No(AS_DECLARED),
        python: No(NAMESPACE),
        operands: Has(GENERATED.called(&["2x3x4 ints:[2,0,1]", "2x3 ints:[1,0]"]).hinted(&[of("a").rank_of_list("permutation", 0)]).forwarding(true, true)),
    },
];
