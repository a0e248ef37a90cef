//! Rows of the operator table: determinants, inverses and solutions of equations.

use super::Row;
use super::vocabulary::*;

/// No kernel computes them.
const OUTSIDE: &str = "kernels of groups factorise no matrices: the interpreter runs it";

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        kind: "aten::cholesky",
        shape: Has(&[sized(S::Of("self"), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3", "grad self = if upper { -> AD_root_backward(AD_turned(g), AD_turned(result)) } else { -> AD_root_backward(g, result) }")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::cholesky_solve",
        shape: Has(&[sized(S::Solved("input2", "self"), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // The gradient of both uses of the factor, although only one half of it is read, as in
            // eager mode.
            ("+2", "
                each = cholesky_solve(g, input2, upper)
                both = matmul(each, AD_turned(result))
                system = both + AD_turned(both)
                of_factor = if upper { -> matmul(input2, system) } else { -> matmul(system, input2) }
                grad self = _grad_sum_to_size(each, size(self))
                grad input2 = _grad_sum_to_size(-of_factor, size(input2))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::det",
        shape: Has(&[sized(S::Determinant, E::Same).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "grad self = AD_of_each_matrix(g * result) * AD_turned(inverse(self))")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x2", "2x3x3"])),
    },
    Row {
        kind: "aten::inverse",
        shape: Has(&[sized(S::Of("self"), E::Same).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "grad self = -matmul(AD_turned(result), matmul(g, AD_turned(result)))")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x2", "2x3x3"])),
    },
    Row {
        kind: "aten::linalg_cholesky",
        shape: Has(&[sized(S::Of("self"), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "grad self = if upper { -> AD_root_backward(AD_turned(g), AD_turned(result)) } else { -> AD_root_backward(g, result) }")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED),
    },
    Row {
        kind: "aten::linalg_det",
        shape: Has(&[sized(S::Determinant, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "grad A = AD_of_each_matrix(g * result) * AD_turned(inverse(A))")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&["2x2", "2x3x3"])),
    },
    Row {
        kind: "aten::linalg_inv",
        shape: Has(&[sized(S::Of("A"), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "grad A = -matmul(AD_turned(result), matmul(g, AD_turned(result)))")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&["2x2", "2x3x3"])),
    },
    Row {
        kind: "aten::linalg_matrix_power",
        shape: Has(&[sized(S::Of("self"), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "grad self = AD_any_power_backward(g, self, n)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&["2x2 int:3", "3x3 int:-1"])),
    },
    Row {
        kind: "aten::linalg_matrix_rank",
        shape: Has(&[sized(S::Unreported, E::Long).detached()]),
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
        kind: "aten::linalg_slogdet",
        shape: Has(&[sized(S::Determinant, E::Each(&[E::Same, E::Parts]))]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "grad A = AD_of_each_matrix(AD_given(g1, result1)) * AD_turned(inverse(A))")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&["2x2", "2x3x3"])),
    },
    Row {
        kind: "aten::linalg_solve",
        shape: Has(&[sized(S::SolvedSystem, E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // The gradient of the right-hand side solves the transposed system; that of the matrix
            // is its product with the solution.
            ("+2", "
                is_vector = if dim(B) == 1 { -> True } else { -> if dim(A) == dim(B) + 1 { -> size(B) == slice(size(A), 0, dim(B), 1) } else { -> False } }
                columns = if is_vector { -> unsqueeze(g, -1) } else { -> g }
                found = if is_vector { -> unsqueeze(result, -1) } else { -> result }
                each = linalg_solve(AD_turned(A), columns, left=left)
                of_matrix = if left { -> matmul(each, AD_turned(found)) } else { -> matmul(AD_turned(found), each) }
                given = if is_vector { -> squeeze(each, -1) } else { -> each }
                grad A = _grad_sum_to_size(-of_matrix, size(A))
                grad B = _grad_sum_to_size(given, size(B))
            "),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&[
            "2x2 2x3 yes",
            "2x2 2 yes",
            "2x3x3 2x3 yes",
            "2x2 3x2 no",
            "3x3 2x3x2 yes",
        ])),
    },
    Row {
        kind: "aten::linalg_solve_triangular",
        shape: Has(&[sized(S::Solved("self", "B"), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+2", "
                each = linalg_solve_triangular(AD_turned(self), g, upper=upper == False, left=left, unitriangular=unitriangular)
                of_matrix = if left { -> matmul(each, AD_turned(result)) } else { -> matmul(AD_turned(result), each) }
                grad self = _grad_sum_to_size(AD_one_triangle(-of_matrix, upper, unitriangular), size(self))
                grad B = _grad_sum_to_size(each, size(B))
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: No(UNNAMED),
        operands: Has(GENERATED.called(&[
            "2x2 2x3 yes yes no",
            "2x3x3 3x2 no yes no",
            "2x2 3x2 yes no yes",
            "2x2 3x2 no no no",
        ])),
    },
    Row {
        kind: "aten::logdet",
        shape: Has(&[sized(S::Determinant, E::Same).reported_as(RANK)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[
            // NaN, the logarithm of a negative determinant, has no gradient.
            ("+1.3 +2", "grad self = AD_of_each_matrix(masked_fill(g, isnan(result), 0)) * AD_turned(inverse(self))"),
        ]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x2", "2x3x3"])),
    },
    Row {
        kind: "aten::matrix_power",
        shape: Has(&[sized(S::Of("self"), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "grad self = AD_any_power_backward(g, self, n)")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x2 int:3", "2x2x2 int:-2", "2x2 int:1"])),
    },
    Row {
        kind: "aten::pinverse",
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
        kind: "aten::slogdet",
        shape: Has(&[sized(S::Determinant, E::Each(&[E::Same, E::Parts]))]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "grad self = AD_of_each_matrix(AD_given(g1, result1)) * AD_turned(inverse(self))")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x2", "2x3x3"])),
    },
    Row {
        kind: "aten::triangular_solve",
        shape: Has(&[sized(S::Each(&[S::Solved("A", "self"), S::Solved("self", "A")]), E::Same)]),
        computation: No(OUTSIDE),
        fusion: No(OUTSIDE),
        gradient: Has(&[("+1.3 +2", "
                each, same = triangular_solve(AD_given(g0, result0), A, upper, transpose == False, unitriangular)
                of_matrix = if transpose { -> matmul(result0, AD_turned(each)) } else { -> matmul(each, AD_turned(result0)) }
                of_system = AD_one_triangle(-of_matrix, upper, unitriangular)
                whole = if prim::AutogradAnyNonZero(g1) { -> of_system + g1 } else { -> of_system }
                grad self = _grad_sum_to_size(each, size(self))
                grad A = _grad_sum_to_size(whole, size(A))
            ")]),
        guard: No(STAYS),
        accuracy: Has(units(2.0)),
        semantics: No(AS_DECLARED),
        python: Has(TORCH),
        operands: Has(GENERATED.called(&["2x3 2x2 yes no no", "2x3 2x2 no yes no", "2x3x1 3x3 yes yes yes"]).shaped(&["2x3 2x2 yes no no"])),
    },
];
