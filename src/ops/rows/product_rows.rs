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
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "4x3 2x3 float:2. none",
            "2x4x3 2x2x3 float:3. none",
            "4x3 2x3 float:inf int:2",
        ])),
    },
    Row {
        kind: "aten::_native_multi_head_attention",
        shape: Has(&[sized(S::Each(&[S::Like, S::HeadWeights]), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&[
            "2x3x4 2x3x4 2x3x4 int:4 int:2 12x4 12 4x4 4 none yes yes none",
            "2x3x4 2x3x4 2x3x4 int:4 int:2 12x4 12 4x4 4 none yes no none",
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
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::_scaled_dot_product_attention_math",
        shape: Has(&[sized(S::Each(&[S::Attended, S::AttentionWeights]), E::Same)]),
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
        kind: "aten::_transformer_encoder_layer_fwd",
        shape: Has(&[sized(S::Like, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.shaped(&[
            "2x3x4 int:4 int:2 12x4 12 4x4 4 no no float:0.01 4 4 4 4 5x4 5 4x5 4 none none",
        ])),
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
        kind: "aten::bilinear",
        shape: Has(&[sized(S::Bilinear, E::Common).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", r#"
                grad input1 = einsum("...o,oij,...j->...i", [g, weight, input2])
                grad input2 = einsum("...o,oij,...i->...j", [g, weight, input1])
                rows = reshape(g, [-1, size(weight)[0]])
                grad weight = einsum("no,ni,nj->oij", [rows, reshape(input1, [-1, size(weight)[1]]), reshape(input2, [-1, size(weight)[2]])])
                grad bias = sum(rows, [0])
            "#)]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["4x3 4x2 5x3x2 5", "2x4x3 2x4x2 5x3x2 none"])),
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
        kind: "aten::chain_matmul",
        shape: Has(&[sized(S::Chained, E::Common)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: No(NO_FORMULA),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: Has(DECLARED.alias(A::MayReturn(0))),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::corrcoef",
        shape: Has(&[sized(S::Correlated, E::Real)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            ("+2 halves", "
                rows = AD_variables(self)
                n = size(rows)[0]
                count = size(rows)[1]
                apart = rows - sum(rows, [1], True) / count
                covered = matmul(apart, t(apart)) / prim::max(count - 1, 0)
                roots = sqrt(diagonal(covered))
                outer = unsqueeze(roots, 1)
                inner = unsqueeze(roots, 0)
                once = covered / outer
                twice = once / inner
                share = masked_fill(reshape(g, [n, n]), __and__(twice > -1, twice < 1) == 0, 0)
                of_inner = sum(-share * (once / inner / inner), [0])
                halfway = share / inner
                of_outer = sum(-halfway * (covered / outer / outer), [1])
                of_diagonal = diag_embed((of_inner + of_outer) / (roots * 2))
                grad self = reshape(AD_covariance_in_order(halfway / outer + of_diagonal, rows, 1), size(self))
            "),
            ("+2", "
                rows = AD_variables(self)
                n = size(rows)[0]
                covered = reshape(cov(self), [n, n])
                variances = diagonal(covered)
                roots = sqrt(variances)
                share = reshape(g, [n, n])
                scaled = share / unsqueeze(roots, 1) / unsqueeze(roots, 0)
                both = share * (covered / unsqueeze(roots, 1) / unsqueeze(roots, 0))
                of_variances = (sum(both, [0]) + sum(both, [1])) / (variances * 2)
                all = new_ones(rows, [size(rows)[1]])
                grad self = reshape(AD_covariance_backward(scaled - diag_embed(of_variances), rows, all, sum(all) - 1), size(self))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["3x5", "1x4"]).shaped(&["3x4"])),
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
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x3 2x3 int:1 float:0.001", "2x3x4 1x3x4 int:-2 float:0.001"])),
    },
    Row {
        kind: "aten::cov",
        shape: Has(&[sized(S::Correlated, E::Real)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // The product of all factors but one, rounded after each operator; the sums of rows
            // exceed 65504.
            ("+2 halves", "
                rows = AD_variables(self)
                frequencies = AD_observation_weights(fweights, rows)
                shares = AD_observation_weights(aweights, rows)
                all = frequencies * shares
                is_plain = if __is__(fweights, None) { -> __is__(aweights, None) } else { -> False }
                norm = clamp_min(sum(all) - AD_lost_weight(frequencies, shares, all, correction, __isnot__(aweights, None)), 0)
                share = reshape(g, [size(rows)[0], size(rows)[0]])
                of_norm = (frequencies - AD_lost_weight_slope(frequencies, shares, all, correction)) * (sum(g * result) / norm)
                apart = rows - sum(rows * all, [1], True) / sum(all)
                of_pairs = sum(apart * matmul(share, apart), [0]) * frequencies / norm
                given = if __is__(aweights, None) { -> None } else {
                    -> reshape(of_pairs - of_norm, size(prim::unchecked_unwrap_optional(aweights)))
                }
                found = if is_plain { -> AD_covariance_in_order(share, rows, correction) } else {
                    -> AD_covariance_backward(share, rows, all, norm)
                }
                grad self = reshape(found, size(self))
                grad aweights = prim::unchecked_unwrap_optional(given)
            "),
            ("+2", "
                rows = AD_variables(self)
                frequencies = AD_observation_weights(fweights, rows)
                shares = AD_observation_weights(aweights, rows)
                all = frequencies * shares
                is_shared = __isnot__(aweights, None)
                norm = clamp_min(sum(all) - AD_lost_weight(frequencies, shares, all, correction, is_shared), 0)
                share = reshape(g, [size(rows)[0], size(rows)[0]])
                apart = rows - sum(rows * all, [1], True) / sum(all)
                of_norm = (frequencies - AD_lost_weight_slope(frequencies, shares, all, correction)) * (sum(g * result) / norm)
                of_pairs = sum(apart * matmul(share, apart), [0]) * frequencies / norm
                given = if __is__(aweights, None) { -> None } else {
                    -> reshape(of_pairs - of_norm, size(prim::unchecked_unwrap_optional(aweights)))
                }
                grad self = reshape(AD_covariance_backward(share, rows, all, norm), size(self))
                grad aweights = prim::unchecked_unwrap_optional(given)
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "3x5 int:1 none none",
            "2x4 int:0 none doubles:0.5,1.5,0.25,2.0",
            "3x4 int:1 longs:1,2,1,3 doubles:0.5,1.5,0.25,2.0",
            "4 int:1 longs:1,2,1,3 none",
            "1x4 int:2 none doubles:0.5,1.5,0.75,2.0",
        ]).shaped(&["3x4 int:1 none none"])),
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
        kind: "aten::einsum",
        shape: Has(&[sized(S::Einsum, E::Common).with("equation")]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", r#"
                parts = split(split(equation, "->", -1)[0], ",", -1)
                grad tensors = for k < len(tensors) with all = slice([g], 0, 0, 1) {
                    operands = for j < len(tensors) with others = [g] {
                        other = if j == k { -> ones_like(tensors[j]) } else { -> tensors[j] }
                        -> others + [other]
                    }
                    -> all + [AD_einsum_backward(equation, parts[k], operands, tensors[k])]
                }
            "#)]),
        guard: No(STAYS),
        accuracy: Has(sums()),
        semantics: Has(DECLARED.alias(A::MayReturn(1))),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "text:\"ab,cb->ac\" list:double:2x3,double:4x3 none",
            "text:\"ba,bc\" list:double:2x3,double:2x4 none",
            "text:\"aB,a,->B\" list:double:2x3,double:2,double: none",
            "text:\"ii->i\" list:double:3x3 none",
            "text:\"iij,jk->k\" list:double:3x3x2,double:2x4 none",
            "text:\"...ij,...jk->...ik\" list:double:2x3x4,double:5x2x4x3 none",
            "text:\"i...,i...\" list:double:2x3,double:2x1 none",
            "text:\"ab,bc->c\" list:double:2x1,double:3x4 none",
            "text:\"ab,cb->ac\" list:double:2x3,double:4x3",
            "text:\"ii,i\" list:double:3x3,double:3",
        ]).shaped(&[
            "text:\"ij,jk->ik\" list:2x3,3x4 none",
            "text:\"bij,bjk\" list:2x3x4,2x4x5 none",
            "text:\"...ij->...ji\" list:2x3x4 none",
            "text:\"ii->i\" list:3x3 none",
        ])),
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
        kind: "aten::kron",
        shape: Has(&[sized(S::Kronecker, E::Promoted)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // Each dimension of the product combines one of both operands; that of the second one
            // is the inner one.
            ("+2", "
                a = AD_leading_ones(self, dim(g))
                b = AD_leading_ones(other, dim(g))
                both, of_self, of_other = for i < dim(g) with both = slice([0], 0, 0, 1), of_self = slice([0], 0, 0, 1), of_other = slice([0], 0, 0, 1) {
                    -> both + [a[i], b[i]], of_self + [a[i], 1], of_other + [1, b[i]]
                }
                apart = reshape(g, both)
                grad self = reshape(_grad_sum_to_size(apart * reshape(other, of_other), of_self), size(self))
                grad other = reshape(_grad_sum_to_size(apart * reshape(self, of_self), of_other), size(other))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x3 3x2", "3 2x1x2"])),
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
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::linalg_multi_dot",
        shape: Has(&[sized(S::Chained, E::Common)]),
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
        python: Has(TORCH),
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
        kind: "aten::scaled_dot_product_attention",
        shape: Has(&[sized(S::Attended, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "
                keep keys = AD_heads(key, query, enable_gqa)
                keep values = AD_heads(value, query, enable_gqa)
                keep factor = AD_attention_scale(query, scale)
                keep weights = _safe_softmax(AD_masked_scores(matmul(query, transpose(keys, -2, -1)) * factor, attn_mask, is_causal), -1)
                keep noise = AD_noise(weights, dropout_p)
                result := matmul(weights * noise, values)
                of_weights = matmul(g, transpose(values, -2, -1)) * noise
                each = weights * (of_weights - sum(of_weights * weights, [-1], True))
                grad query = _grad_sum_to_size(matmul(each, keys) * factor, size(query))
                grad key = _grad_sum_to_size(AD_to_heads(matmul(transpose(each, -2, -1), query) * factor, key, enable_gqa), size(key))
                grad value = _grad_sum_to_size(AD_to_heads(matmul(transpose(weights * noise, -2, -1), g), value, enable_gqa), size(value))
                grad attn_mask = AD_to_mask(each, attn_mask)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&[
            "2x4x3 2x5x3 2x5x2 none float:0. no none no",
            "2x4x3 2x5x3 2x5x2 none float:0. yes float:0.5 no",
            "2x2x4x3 2x2x5x3 2x2x5x2 4x5 float:0. no none no",
            "2x4x3 2x5x3 2x5x2 bool:4x5 float:0. no none no",
            "2x4x2x3 2x2x3x3 2x2x3x2 none float:0. no none yes",
        ])),
    },
    Row {
        kind: "aten::tensordot",
        shape: Has(&[sized(S::Contracted, E::Common)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                grad self = AD_tensordot_backward(g, self, other, dims_self, dims_other, dim(self) - len(dims_self))
                grad other = AD_tensordot_backward(g, other, self, dims_other, dims_self, 0)
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(PLAIN_FUNCTIONAL),
        operands: Has(GENERATED.called(&[
            "2x3x4 4x3x5 ints:[1,2] ints:[1,0]",
            "2x3 2x4 ints:[0] ints:[-2]",
            "2x3 4 ints:[] ints:[]",
            "2x3 1x4 ints:[1] ints:[0]",
            "2x1 3x4 ints:[1] ints:[0]",
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
];
