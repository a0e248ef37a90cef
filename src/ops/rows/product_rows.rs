//! Rows of the operator table: products of matrices and vectors, and distances between rows.

use super::Row;
use super::vocabulary::*;

/// No kernel computes them.
const OUTSIDE: &str = "kernels of groups compute no products of matrices: the interpreter runs it";
/// The gradient of `aten::_pdist_forward` and `aten::pdist`.
const PDIST_FORWARD_GRADIENT: &str = "
    n = size(self)[0]
    places = arange(n, dtype=4)
    is_pair = triu(ones([n, n]), 1) > 0
    first = masked_select(expand(unsqueeze(places, 1), [n, n]), is_pair)
    second = masked_select(expand(unsqueeze(places, 0), [n, n]), is_pair)
    apart = index_select(self, 0, first) - index_select(self, 0, second)
    each = AD_far_coordinates(unsqueeze(g, -1), apart, unsqueeze(result, -1), p)
    grad self = index_add(index_add(zeros_like(self), 0, first, each), 0, second, -each)
";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::_cdist_forward",
        shape: Has(&[sized(S::Distances, E::Distance)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "
                of_x1, of_x2 = AD_distances_backward(g, x1, x2, result, p)
                grad x1 = of_x1
                grad x2 = of_x2
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&[
            "4x3 2x3 float:2. none",
            "2x4x3 2x2x3 float:3. none",
            "4x3 2x3 float:inf int:2",
        ])),
    },
    Row {
        kind: "aten::_pdist_forward",
        shape: Has(&[sized(S::Pairs, E::Parts)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // The distances of each row to those after it.
            ("+1.3 +2", PDIST_FORWARD_GRADIENT),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::addbmm",
        shape: Has(&[sized(S::ReducedProduct, E::Common).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                each = expand(unsqueeze(g, 0), [size(batch1)[0], size(batch1)[1], size(batch2)[2]])
                grad self = _grad_sum_to_size(g * beta, size(self))
                grad batch1 = bmm(each, transpose(batch2, 1, 2)) * alpha
                grad batch2 = bmm(transpose(batch1, 1, 2), each) * alpha
            ")]),
        guard: No(STAYS),
        accuracy: Has(sums().adding(0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["3x5 2x3x4 2x4x5 float:0.5 float:1.5"])),
    },
    Row {
        kind: "aten::addmm",
        shape: Has(&[sized(S::AddedProduct(2), E::Common).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("1.3 2", "
                keep self_size = _size_if_not_equal(size(self), size(result))
                grad self = _grad_sum_to_size(g * beta, self_size)
                grad mat1 = mm(g, t(mat2)) * alpha
                grad mat2 = mm(t(mat1), g) * alpha
            ")]),
        guard: Has(kept().recorded(&["", "dtype"])),
        accuracy: Has(sums().adding(0).in_any_order()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.hinted(&[of("mat1").rank(2), of("mat2").rank(2)])),
    },
    Row {
        kind: "aten::addmv",
        shape: Has(&[sized(S::AddedProduct(1), E::Common).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                grad self = _grad_sum_to_size(g * beta, size(self))
                grad mat = ger(g, vec) * alpha
                grad vec = mv(t(mat), g) * alpha
            ")]),
        guard: No(STAYS),
        accuracy: Has(sums().adding(0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["3 3x4 4 float:0.5 float:1.5"])),
    },
    Row {
        kind: "aten::addr",
        shape: Has(&[sized(S::Outer, E::Settled).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                grad self = _grad_sum_to_size(g * beta, size(self))
                grad vec1 = mv(g, vec2) * alpha
                grad vec2 = mv(t(g), vec1) * alpha
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["3x4 3 4 float:0.5 float:1.5"])),
    },
    Row {
        kind: "aten::baddbmm",
        shape: Has(&[sized(S::AddedProduct(3), E::Common).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                grad self = _grad_sum_to_size(g * beta, size(self))
                grad batch1 = bmm(g, transpose(batch2, 1, 2)) * alpha
                grad batch2 = bmm(transpose(batch1, 1, 2), g) * alpha
            ")]),
        guard: No(STAYS),
        accuracy: Has(sums().adding(0).in_any_order()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x3x5 2x3x4 2x4x5 float:0.5 float:1.5", "5 2x3x4 2x4x5 int:2 int:1"]).hinted(&[of("batch1").rank(3), of("batch2").rank(3)])),
    },
    Row {
        kind: "aten::bmm",
        shape: Has(&[sized(S::Product(3), E::Common).reported_as(SIZES)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("1.3 2", "
                grad self = AD_bmm_backward_self(g, mat2)
                grad mat2 = AD_bmm_backward_mat2(g, self)
            "),
            ("+2 complex", "
                grad self = bmm(g, conj(transpose(mat2, 1, 2)))
                grad mat2 = bmm(conj(transpose(self, 1, 2)), g)
            "),
            ("def AD_bmm_backward_self(grad, mat2)  1.3 2", "
                -> bmm(grad, transpose(mat2, 1, 2))
            "),
            ("def AD_bmm_backward_mat2(grad, self)  1.3 2", "
                -> bmm(transpose(self, 1, 2), grad)
            "),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(sums().in_any_order()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x3x4 2x4x3"]).hinted(&[of("self").rank(3), of("mat2").rank(3)])),
    },
    Row {
        kind: "aten::cdist",
        shape: Has(&[sized(S::Distances, E::Distance)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                of_x1, of_x2 = AD_distances_backward(g, x1, x2, result, p)
                grad x1 = of_x1
                grad x2 = of_x2
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "4x3 2x3 float:2.",
            "2x4x3 2x2x3 float:1.",
            "4x3 2x3 float:3.",
            "4x3 2x3 float:0.5",
            "4x3 2x3 float:inf",
            "4x3 2x3 float:2. none",
            "2x4x3 2x3 float:1. none",
            "1x4x3 2x5x3 float:1.5 int:1",
            "4x3 2x3 float:inf none",
        ])),
    },
    Row {
        kind: "aten::cosine_similarity",
        shape: Has(&[sized(S::PairwiseReduced, E::Distance)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // The norms are rounded, then the normalised rows, then products and sums.
            ("+2 halves from=2.0", "
                a = x1 + zeros_like(x2)
                b = x2 + zeros_like(x1)
                n1 = AD_norm_of_floats(a, a, 2., [dim], True)
                n2 = AD_norm_of_floats(b, b, 2., [dim], True)
                m1 = clamp_min(n1, eps)
                m2 = clamp_min(n2, eps)
                u1 = a / m1
                u2 = b / m2
                share = unsqueeze(g, dim)
                of_m1 = sum(-(share * u2) * (u1 / m1), [dim], True)
                of_m2 = sum(-(share * u1) * (u2 / m2), [dim], True)
                grad x1 = _grad_sum_to_size(share * u2 / m1 + AD_norm_backward(of_m1, a, n1, 2.), size(x1))
                grad x2 = _grad_sum_to_size(share * u1 / m2 + AD_norm_backward(of_m2, b, n2, 2.), size(x2))
            "),
            // Up to 1.11 the product of both norms has a lower bound, later each norm has.
            ("+1.3 +2 until=1.12", "
                a = x1 + zeros_like(x2)
                b = x2 + zeros_like(x1)
                square1 = sum(a * a, [dim], True)
                square2 = sum(b * b, [dim], True)
                least = eps * eps
                both = sqrt(clamp_min(square1 * square2, least))
                share = unsqueeze(g, dim) / both
                bent = masked_fill(share * sum(a * b, [dim], True) / (both * both), square1 * square2 < least, 0)
                grad x1 = _grad_sum_to_size(share * b - bent * square2 * a, size(x1))
                grad x2 = _grad_sum_to_size(share * a - bent * square1 * b, size(x2))
            "),
            ("+2 from=1.12", "
                a = x1 + zeros_like(x2)
                b = x2 + zeros_like(x1)
                norm1 = sqrt(sum(a * a, [dim], True))
                norm2 = sqrt(sum(b * b, [dim], True))
                n1 = clamp_min(norm1, eps)
                n2 = clamp_min(norm2, eps)
                cosine = sum(a * b, [dim], True) / (n1 * n2)
                share = unsqueeze(g, dim)
                bent1 = cosine * masked_fill(a / AD_unbounded(norm1, n1), norm1 == 0, 0)
                bent2 = cosine * masked_fill(b / AD_unbounded(norm2, n2), norm2 == 0, 0)
                grad x1 = _grad_sum_to_size(share * (b / n2 - bent1) / n1, size(x1))
                grad x2 = _grad_sum_to_size(share * (a / n1 - bent2) / n2, size(x2))
            "),
            // Eager mode differentiates norms as if they had no lower bound: in 1.12 and 1.13 it
            // divides by the bound there, too.
            ("def AD_unbounded(norm, bounded)  2 until=2.0", "
                -> bounded
            "),
            ("def AD_unbounded(norm, bounded)  2 from=2.0", "
                -> norm
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x3 2x3 int:1 float:0.001", "2x3x4 1x3x4 int:-2 float:0.001"])),
    },
    Row {
        kind: "aten::cross",
        shape: Has(&[sized(S::Broadcast, E::Promoted)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                grad self = _grad_sum_to_size(cross(expand(other, size(result)), g, dim), size(self))
                grad other = _grad_sum_to_size(cross(g, expand(self, size(result)), dim), size(other))
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x3 2x3 int:1", "3x2 3x2 none"])),
    },
    Row {
        kind: "aten::dist",
        shape: Has(&[sized(S::Scalar, E::Settled).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                apart = self - other
                share = AD_norm_of_dims(g, apart, result, Float(p), prim::rangelist(dim(apart)), False)
                grad self = _grad_sum_to_size(share, size(self))
                grad other = _grad_sum_to_size(-share, size(other))
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::dot",
        shape: Has(&[sized(S::Scalar, E::Common).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("1.3 2", "
                grad self = g * tensor
                grad tensor = g * self
            ")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(sums().in_any_order()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.hinted(&[of("self").rank(1), of("tensor").rank(1)])),
    },
    Row {
        kind: "aten::ger",
        shape: Has(&[sized(S::Outer, E::Settled)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                grad self = mv(g, vec2)
                grad vec2 = mv(t(g), self)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["3 4"]).hinted(&[of("self").rank(1), of("vec2").rank(1)])),
    },
    Row {
        kind: "aten::inner",
        shape: Has(&[sized(S::Inner, E::Same)]),
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
        kind: "aten::linalg_cross",
        shape: Has(&[sized(S::Broadcast, E::Promoted)]),
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
        kind: "aten::linalg_vander",
        shape: Has(&[sized(S::Vandermonde, E::Summed)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "
                powers = arange(size(result)[dim(x)], dtype=4)
                grad x = AD_vander_backward(g, x, powers)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&["2x3 int:4"])),
    },
    Row {
        kind: "aten::linear",
        shape: Has(&[sized(S::Linear, E::Common)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("2", "
                grad_bias = if __isnot__(bias, None) {
                    given = prim::unchecked_cast(bias)
                    -> _grad_sum_to_size(g, size(given))
                } else {
                    -> None
                }
                weight_size = size(weight)
                grad input = matmul(g, weight)
                grad weight = matmul(t(reshape(g, [-1, weight_size[0]])), reshape(input, [-1, weight_size[1]]))
                grad bias = prim::unchecked_unwrap_optional(grad_bias)
            "),
            // PyTorch's formula treats a weight of one dimension, a vector by which rows are
            // multiplied, as a matrix.
            ("+2 eager", "
                weight_size = size(weight)
                is_vector = len(weight_size) == 1
                grad_bias = if __isnot__(bias, None) {
                    given = prim::unchecked_cast(bias)
                    -> _grad_sum_to_size(g, size(given))
                } else {
                    -> None
                }
                grad input = if is_vector { -> unsqueeze(g, -1) * weight } else { -> matmul(g, weight) }
                grad weight = if is_vector {
                    -> _grad_sum_to_size(unsqueeze(g, -1) * input, weight_size)
                } else {
                    -> matmul(t(reshape(g, [-1, weight_size[0]])), reshape(input, [-1, weight_size[1]]))
                }
                grad bias = prim::unchecked_unwrap_optional(grad_bias)
            "),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(sums().adding(2).in_any_order()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3 2x3 2", "3 2x3 none", "2x4x3 5x3 5"]).hinted(&[of("bias").rank(1)])),
    },
    Row {
        kind: "aten::matmul",
        shape: Has(&[sized(S::Matmul, E::Common).reported_as(SIZES)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("1.3 2", "
                self_size = size(self)
                other_size = size(other)
                grad self = _grad_sum_to_size(AD_matmul_bw_size(g, AD_mat_transpose(other), self_size), self_size)
                grad other = _grad_sum_to_size(AD_matmul_bw_size(AD_mat_transpose(self), g, other_size), other_size)
            "),
            ("+2 complex", "
                self_size = size(self)
                other_size = size(other)
                grad self = _grad_sum_to_size(AD_matmul_bw_size(g, AD_mat_transpose(conj(other)), self_size), self_size)
                grad other = _grad_sum_to_size(AD_matmul_bw_size(AD_mat_transpose(conj(self)), g, other_size), other_size)
            "),
            ("def AD_mat_transpose(mat)  1.3 2", "
                rank = dim(mat)
                -> if rank == 1 { -> mat } else if rank == 2 { -> t(mat) } else {
                    dims = prim::rangelist(rank)
                    last = _set_item(dims, -1, rank - 2)
                    before = _set_item(dims, -2, rank - 1)
                    -> permute(mat, dims)
                }
            "),
            // Sums over broadcast dimensions inside of the product: no product of all batches is
            // made.
            ("def AD_matmul_bw_special_fold(mat1, mat2)  1.3 2", "
                transposed = AD_mat_transpose(mat1)
                fold1 = reshape(transposed, [-1, size(transposed)[-1]])
                fold2 = reshape(mat2, [-1, size(mat2)[-1]])
                -> mm(t(fold1), fold2)
            "),
            ("def AD_matmul_bw_size(mat1, mat2, out_size: int[])  1.3 2", "
                dim1 = dim(mat1)
                dim2 = dim(mat2)
                dim_out = len(out_size)
                -> if if dim1 == 0 { -> True } else { -> dim2 == 0 } {
                    -> mat1 * mat2
                } else if if if dim_out == 2 { -> dim1 == dim2 } else { -> False } { -> dim1 >= 3 } else { -> False } {
                    -> AD_matmul_bw_special_fold(mat1, mat2)
                } else if if if dim_out == 1 { -> dim1 - dim2 == 1 } else { -> False } { -> dim1 >= 3 } else { -> False } {
                    column = unsqueeze(mat2, -1)
                    -> squeeze(AD_matmul_bw_special_fold(mat1, column), -1)
                } else if dim1 + dim2 == dim_out {
                    target = if dim2 == 1 { -> 0 } else { -> -2 }
                    -> matmul(unsqueeze(mat1, dim1), unsqueeze(mat2, target))
                } else if dim_out == dim1 - dim2 {
                    -> squeeze(matmul(mat1, unsqueeze(mat2, dim2)), -1)
                } else if dim_out == dim2 - dim1 {
                    -> squeeze(matmul(unsqueeze(mat1, -2), mat2), -2)
                } else {
                    -> matmul(mat1, mat2)
                }
            "),
        ]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(sums().in_any_order()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::mm",
        shape: Has(&[sized(S::Product(2), E::Common).reported_as(FRESH)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("1.3 2", "
                grad self = AD_mm_backward_self(g, mat2)
                grad mat2 = AD_mm_backward_mat2(g, self)
            "),
            ("+2 complex", "
                grad self = mm(g, conj(t(mat2)))
                grad mat2 = mm(conj(t(self)), g)
            "),
            ("def AD_mm_backward_self(grad, mat2)  1.3 2", "
                -> mm(grad, t(mat2))
            "),
            ("def AD_mm_backward_mat2(grad, self)  1.3 2", "
                -> mm(t(self), grad)
            "),
        ]),
        guard: Has(redundant(but_for(&[])).recorded(&["", "dtype"])),
        accuracy: Has(sums().in_any_order()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.hinted(&[of("self").rank(2), of("mat2").rank(2)])),
    },
    Row {
        kind: "aten::mv",
        shape: Has(&[sized(S::Matmul, E::Common).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("1.3 2", "
                grad self = ger(g, vec)
                grad vec = mv(t(self), g)
            ")]),
        guard: Has(kept().recorded(PLAIN)),
        accuracy: Has(sums().in_any_order()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.hinted(&[of("vec").rank(1)])),
    },
    Row {
        kind: "aten::outer",
        shape: Has(&[sized(S::Outer, E::Settled)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "
                grad self = mv(g, vec2)
                grad vec2 = mv(t(g), self)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["3 4"]).hinted(&[of("self").rank(1), of("vec2").rank(1)])),
    },
    Row {
        kind: "aten::pairwise_distance",
        shape: Has(&[sized(S::PairwiseReduced, E::Distance)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2 halves", "
                apart = x1 - x2 + eps
                dims = AD_distance_dims(apart)
                each = AD_norm_of_dims(g, apart, AD_norm_of_floats(apart, result, p, dims, keepdim), p, dims, keepdim)
                grad x1 = _grad_sum_to_size(each, size(x1))
                grad x2 = _grad_sum_to_size(-each, size(x2))
            "),
            ("+1.3 +2", "
                apart = x1 - x2 + eps
                each = AD_norm_of_dims(g, apart, result, p, AD_distance_dims(apart), keepdim)
                grad x1 = _grad_sum_to_size(each, size(x1))
                grad x2 = _grad_sum_to_size(-each, size(x2))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "4x3 4x3 float:2. float:0.001 no",
            "4x3 1x3 float:1. float:0.001 yes",
            "4x3 4x3 float:0.5 float:0.001 no",
            "4x3 4x3 float:3. float:0. no",
            "4x3 4x3 float:inf float:0. yes",
        ])),
    },
    Row {
        kind: "aten::pdist",
        shape: Has(&[sized(S::Pairs, E::Parts)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // The distances of each row to those after it.
            ("+1.3 +2", PDIST_FORWARD_GRADIENT),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "4x3 float:2.0",
            "4x3 float:1.0",
            "3x3 float:1.5",
            "3x4 float:3.5",
            "4x3 float:inf",
        ])),
    },
    Row {
        kind: "aten::trace",
        shape: Has(&[sized(S::Scalar, E::Summed).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                places = diagonal(AD_places(self))
                grad self = AD_put_back(expand(g, size(places)), places, self)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::vander",
        shape: Has(&[sized(S::Vandermonde, E::Summed)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "
                up = arange(size(result)[1], dtype=4)
                powers = if increasing { -> up } else { -> flip(up, [0]) }
                grad x = AD_vander_backward(g, x, powers)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4 int:3 no", "3 none yes"])),
    },
    Row {
        kind: "aten::vdot",
        shape: Has(&[sized(S::Scalar, E::Common)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&["3 3"])),
    },
    Row {
        kind: "aten::_addmm_activation",
        shape: Has(&[sized(S::AddedProduct(2), E::Common)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No("eager mode has none either: it is what inference makes of `addmm`"),
        guard: No(STAYS),
        accuracy: Has(sums().adding(0).in_any_order()),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["3 2x4 4x3 float:0.5 float:1.5 no", "2x3 2x4 4x3 int:1 int:1 yes"])
            .hinted(&[of("mat1").rank(2), of("mat2").rank(2)])),
    },
];
