//! Factorizations of square matrices, and derived quantities: determinants, inverses, solutions of
//! linear systems.
//!
//! All computations are in double precision, one matrix of a batch at a time.

use super::elements::{check, like};
use super::linear_algebra::product;
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::stop::Stop;
use crate::tensor::{DType, Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::det", |call| determinant(call, "self")),
    ("aten::linalg_det", |call| determinant(call, "A")),
    ("aten::slogdet", |call| signed_logarithm(call, "self")),
    ("aten::linalg_slogdet", |call| signed_logarithm(call, "A")),
    ("aten::logdet", logarithm),
    ("aten::inverse", |call| inverse(call, "self")),
    ("aten::linalg_inv", |call| inverse(call, "A")),
    ("aten::linalg_solve", solve),
    ("aten::cholesky", cholesky),
    ("aten::linalg_cholesky", cholesky),
    ("aten::cholesky_solve", cholesky_solve),
    ("aten::triangular_solve", triangular_solve),
    ("aten::linalg_solve_triangular", solve_triangular),
    ("aten::matrix_power", matrix_power),
    ("aten::linalg_matrix_power", matrix_power),
];

/// A factorization with row exchanges: `P A = L U`, both triangles in one square.
struct Lu {
    n: usize,
    factors: Vec<f64>,
    /// The original index of each row.
    rows: Vec<usize>,
    is_odd: bool,
}

impl Lu {
    /// Gaussian elimination with partial pivoting: the largest element of a column is the pivot.
    fn new(matrix: &[f64], n: usize) -> Lu {
        let mut lu = Lu { n, factors: matrix.to_vec(), rows: (0..n).collect(), is_odd: false };
        for k in 0..n {
            let size = |lu: &Lu, i: usize| lu.factors[i * n + k].abs();
            let pivot = (k..n).fold(k, |best, i| if size(&lu, i) > size(&lu, best) { i } else { best });
            if pivot != k {
                (0..n).for_each(|j| lu.factors.swap(k * n + j, pivot * n + j));
                lu.rows.swap(k, pivot);
                lu.is_odd = !lu.is_odd;
            }
            let top = lu.factors[k * n + k];
            if top == 0.0 {
                continue;
            }
            for i in k + 1..n {
                lu.factors[i * n + k] /= top;
                let factor = lu.factors[i * n + k];
                for j in k + 1..n {
                    lu.factors[i * n + j] -= factor * lu.factors[k * n + j];
                }
            }
        }
        lu
    }

    fn pivots(&self) -> impl Iterator<Item = f64> {
        (0..self.n).map(|i| self.factors[i * self.n + i])
    }

    /// The first zero pivot, counted from 1.
    fn singular(&self) -> Option<usize> {
        self.pivots().position(|pivot| pivot == 0.0).map(|at| at + 1)
    }

    /// The solution of `A X = right` with `m` columns.
    fn solve(&self, right: &[f64], m: usize) -> Vec<f64> {
        let turned: Vec<f64> = self.rows.iter().flat_map(|&i| right[i * m..(i + 1) * m].iter().copied()).collect();
        let lower = Triangle { is_upper: false, is_unit: true };
        let half = lower.solve(&self.factors, self.n, &turned, m);
        Triangle { is_upper: true, is_unit: false }.solve(&self.factors, self.n, &half, m)
    }
}

/// The used half of a square matrix, and whether its diagonal is taken as ones.
#[derive(Clone, Copy)]
struct Triangle {
    is_upper: bool,
    is_unit: bool,
}

impl Triangle {
    fn solve(self, matrix: &[f64], n: usize, right: &[f64], m: usize) -> Vec<f64> {
        let mut columns = right.to_vec();
        for step in 0..n {
            let i = if self.is_upper { n - 1 - step } else { step };
            let others = if self.is_upper { i + 1..n } else { 0..i };
            for k in others {
                let factor = matrix[i * n + k];
                for j in 0..m {
                    columns[i * m + j] -= factor * columns[k * m + j];
                }
            }
            if !self.is_unit {
                columns[i * m..(i + 1) * m].iter_mut().for_each(|x| *x /= matrix[i * n + i]);
            }
        }
        columns
    }
}

fn transposed(matrix: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..columns).flat_map(|j| (0..rows).map(move |i| matrix[i * columns + j])).collect()
}

/// The name of an operator in messages.
fn named(call: &Call) -> String {
    let short = call.kind().as_str().trim_start_matches("aten::");
    match short {
        "det" | "logdet" | "slogdet" | "inverse" | "matrix_power" | "cholesky" => {
            format!("linalg.{}", if short == "inverse" { "inv" } else { short })
        }
        _ => short.replacen("linalg_", "linalg.", 1),
    }
}

fn check_floats(call: &Call, x: &Tensor) -> Result<(), Stop> {
    if x.dtype().is_complex() {
        return Err(Stop::unsupported(format!("`{}` of complex matrices", call.kind())));
    }
    check(matches!(x.dtype(), DType::Float | DType::Double), || {
        let wrong = if x.dtype().is_float() {
            "Low precision dtypes not supported"
        } else {
            "Expected a floating point or complex tensor as input"
        };
        format!("{}: {wrong}. Got {}", named(call), x.dtype().name())
    })
}

/// The last size of an operand whose last two sizes are equal.
fn check_square(call: &Call, x: &Tensor) -> Result<usize, Stop> {
    check(x.rank() >= 2, || format!("{}: The input tensor A must have at least 2 dimensions.", named(call)))?;
    let (rows, columns) = (x.size(x.rank() - 2), x.size(x.rank() - 1));
    check(rows == columns, || {
        format!("{}: A must be batches of square matrices, but they are {rows} by {columns} matrices", named(call))
    })?;
    check_floats(call, x)?;
    Ok(rows as usize)
}

/// The matrices of a batch.
fn matrices(x: &Tensor) -> Vec<Vec<f64>> {
    let area = layout::numel(&x.shape()[x.rank() - 2..]);
    let count = layout::numel(&x.shape()[..x.rank() - 2]);
    let elements = x.read::<f64>();
    (0..count).map(|i| elements[i * area..(i + 1) * area].to_vec()).collect()
}

fn factored(call: &Call, name: &str) -> Result<(Tensor, Vec<Lu>), Stop> {
    let x = call.tensor(name)?;
    let n = check_square(call, &x)?;
    let all = matrices(&x).iter().map(|matrix| Lu::new(matrix, n)).collect();
    Ok((x, all))
}

/// A number for each matrix.
fn each(call: &Call, x: &Tensor, all: &[Lu], f: impl Fn(&Lu) -> f64) -> Tensor {
    like(call, &all.iter().map(f).collect::<Vec<_>>(), x.dtype(), &x.shape()[..x.rank() - 2], x)
}

fn determinant(call: &Call, name: &str) -> Answer {
    let (x, all) = factored(call, name)?;
    one(each(call, &x, &all, |lu| lu.pivots().product::<f64>() * if lu.is_odd { -1.0 } else { 1.0 }))
}

fn sign(lu: &Lu) -> f64 {
    // NaN has no sign.
    let signs = lu.pivots().map(|pivot| if pivot == 0.0 || pivot.is_nan() { 0.0 } else { pivot.signum() });
    signs.product::<f64>() * if lu.is_odd { -1.0 } else { 1.0 }
}

fn magnitude(lu: &Lu) -> f64 {
    lu.pivots().map(|pivot| pivot.abs().ln()).sum()
}

fn signed_logarithm(call: &Call, name: &str) -> Answer {
    let (x, all) = factored(call, name)?;
    several([each(call, &x, &all, sign), each(call, &x, &all, magnitude)])
}

fn logarithm(call: &Call) -> Answer {
    let (x, all) = factored(call, "self")?;
    one(each(call, &x, &all, |lu| if sign(lu) < 0.0 { f64::NAN } else { magnitude(lu) }))
}

/// Matrices in column-major order, as eager mode's libraries return them.
fn in_columns(call: &Call, all: &[Vec<f64>], shape: &[i64], operand: &Tensor) -> Tensor {
    let (r, elements) = (shape.len(), all.concat());
    let (rows, columns) = (shape[r - 2] as usize, shape[r - 1] as usize);
    let mut turned = shape.to_vec();
    turned.swap(r - 2, r - 1);
    let each = elements.chunks_exact((rows * columns).max(1));
    let elements: Vec<f64> = each.flat_map(|matrix| transposed(matrix, rows, columns)).collect();
    like(call, &elements, operand.dtype(), &turned, operand).transpose(r - 2, r - 1)
}

fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|i| f64::from(u8::from(i / n == i % n))).collect()
}

/// Refuses a batch with a singular matrix.
fn check_regular(call: &Call, x: &Tensor, all: &[Lu]) -> Result<(), Stop> {
    let Some((at, pivot)) = all.iter().enumerate().find_map(|(at, lu)| Some((at, lu.singular()?))) else {
        return Ok(());
    };
    let which = if x.rank() > 2 { format!(" (Batch element {at}):") } else { String::new() };
    Err(Stop::raised(match named(call).as_str() {
        "linalg.inv" | "linalg.matrix_power" => format!(
            "linalg.inv:{which} The diagonal element {pivot} is zero, the inversion could not be completed because the input matrix is singular."
        ),
        other => format!("torch.{other}:{which} The solver failed because the input matrix is singular."),
    }))
}

fn inverted(call: &Call, x: &Tensor) -> Result<Tensor, Stop> {
    let n = check_square(call, x)?;
    let all: Vec<Lu> = matrices(x).iter().map(|matrix| Lu::new(matrix, n)).collect();
    check_regular(call, x, &all)?;
    let inverses: Vec<Vec<f64>> = all.iter().map(|lu| lu.solve(&identity(n), n)).collect();
    Ok(in_columns(call, &inverses, x.shape(), x))
}

fn inverse(call: &Call, name: &str) -> Answer {
    one(inverted(call, &call.tensor(name)?)?)
}

/// Both operands with the same batch.
fn batched(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor), Stop> {
    let (m, n) = (a.rank() - 2, b.rank() - 2);
    let batch = layout::broadcast(&a.shape()[..m], &b.shape()[..n])?;
    let wide = |x: &Tensor| {
        let mut shape = batch.to_vec();
        shape.extend_from_slice(&x.shape()[x.rank() - 2..]);
        x.broadcast_to(&shape)
    };
    Ok((wide(a)?, wide(b)?))
}

fn check_fit(call: &Call, a: &Tensor, b: &Tensor, left: bool) -> Result<(), Stop> {
    check(a.dtype() == b.dtype(), || {
        format!(
            "{}: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead",
            named(call),
            a.dtype().name(),
            b.dtype().name()
        )
    })?;
    let (rows, columns) = (b.size(b.rank() - 2), b.size(b.rank() - 1));
    let n = a.size(a.rank() - 1);
    check(n == if left { rows } else { columns }, || {
        format!(
            "{}: Incompatible shapes of A and B for the equation {} ({n}x{n} and {rows}x{columns})",
            named(call),
            if left { "AX = B" } else { "XA = B" }
        )
    })
}

/// Applies `f(matrix, n, columns, m)` to all pairs; for `XA = B` it solves the transposed system.
fn solved(
    call: &Call,
    (a, b): (&Tensor, &Tensor),
    left: bool,
    f: impl Fn(&[f64], usize, &[f64], usize) -> Vec<f64>,
) -> Result<Tensor, Stop> {
    let (a, b) = batched(a, b)?;
    let (rows, columns) = (b.size(b.rank() - 2) as usize, b.size(b.rank() - 1) as usize);
    let n = a.size(a.rank() - 1) as usize;
    let pairs = matrices(&a).into_iter().zip(matrices(&b));
    let each = |(a, b): (Vec<f64>, Vec<f64>)| match left {
        true => f(&a, n, &b, columns),
        false => transposed(&f(&transposed(&a, n, n), n, &transposed(&b, rows, columns), rows), n, rows),
    };
    Ok(in_columns(call, &pairs.map(each).collect::<Vec<_>>(), b.shape(), &b))
}

fn solve(call: &Call) -> Answer {
    let (a, b, left) = (call.tensor("A")?, call.tensor("B")?, call.bool("left")?);
    let n = check_square(call, &a)?;
    let is_vector = b.rank() == 1 || (a.rank() == b.rank() + 1 && b.shape() == &a.shape()[..b.rank()]);
    check(left || !is_vector, || {
        "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)".to_owned()
    })?;
    check(is_vector || b.rank() >= 2, || {
        "linalg.solve: The input tensor B must have at least 2 dimensions.".to_owned()
    })?;
    let right = if is_vector { b.unsqueeze(b.rank()) } else { b.clone() };
    check_fit(call, &a, &right, left)?;
    let all: Vec<Lu> = matrices(&a).iter().map(|matrix| Lu::new(matrix, n)).collect();
    check_regular(call, &a, &all)?;
    let result = solved(call, (&a, &right), left, |a, n, b, m| Lu::new(a, n).solve(b, m))?;
    let last = result.rank() - 1;
    one(match (is_vector, left) {
        (true, _) => result.squeeze(&[last]),
        (_, true) => result,
        (_, false) => result.contiguous(),
    })
}

/// The lower Cholesky factor of a matrix, of which only the lower triangle is read.
fn lower_root(matrix: &[f64], n: usize) -> Result<Vec<f64>, usize> {
    let mut root = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let dot: f64 = (0..j).map(|k| root[i * n + k] * root[j * n + k]).sum();
            let rest = matrix[i * n + j] - dot;
            if i != j {
                root[i * n + j] = rest / root[j * n + j];
            } else if rest > 0.0 {
                root[i * n + j] = rest.sqrt();
            } else {
                return Err(i + 1);
            }
        }
    }
    Ok(root)
}

fn cholesky(call: &Call) -> Answer {
    let (x, upper) = (call.tensor("self")?, call.bool("upper")?);
    let n = check_square(call, &x)?;
    let mut roots = Vec::new();
    for (at, matrix) in matrices(&x).into_iter().enumerate() {
        let matrix = if upper { transposed(&matrix, n, n) } else { matrix };
        let root = lower_root(&matrix, n).map_err(|minor| {
            let which = if x.rank() > 2 { format!(" (Batch element {at}):") } else { String::new() };
            Stop::raised(format!(
                "linalg.cholesky:{which} The factorization could not be completed because the input is not positive-definite (the leading minor of order {minor} is not positive-definite)."
            ))
        })?;
        roots.push(if upper { transposed(&root, n, n) } else { root });
    }
    one(in_columns(call, &roots, x.shape(), &x))
}

fn cholesky_solve(call: &Call) -> Answer {
    let (b, root, is_upper) = (call.tensor("self")?, call.tensor("input2")?, call.bool("upper")?);
    check_square(call, &root)?;
    check(b.rank() >= 2, || format!("b should have at least 2 dimensions, but has {} dimensions instead", b.rank()))?;
    check_fit(call, &root, &b, true)?;
    one(solved(call, (&root, &b), true, |root, n, b, m| {
        let turned = transposed(root, n, n);
        let (lower, upper) = if is_upper { (&turned[..], root) } else { (root, &turned[..]) };
        let half = Triangle { is_upper: false, is_unit: false }.solve(lower, n, b, m);
        Triangle { is_upper: true, is_unit: false }.solve(upper, n, &half, m)
    })?)
}

fn triangular_solve(call: &Call) -> Answer {
    let (b, a) = (call.tensor("self")?, call.tensor("A")?);
    let (is_upper, transpose) = (call.bool("upper")?, call.bool("transpose")?);
    check_square(call, &a)?;
    check(b.rank() >= 2, || {
        format!(
            "torch.triangular_solve: Expected b to have at least 2 dimensions, but it has {} dimensions instead",
            b.rank()
        )
    })?;
    check_fit(call, &a, &b, true)?;
    let triangle = Triangle { is_upper: is_upper != transpose, is_unit: call.bool("unitriangular")? };
    let result = solved(call, (&a, &b), true, |a, n, b, m| match transpose {
        true => triangle.solve(&transposed(a, n, n), n, b, m),
        false => triangle.solve(a, n, b, m),
    })?;
    let (a, _) = batched(&a, &b)?;
    let copy = in_columns(call, &matrices(&a), a.shape(), &a);
    several([result, copy])
}

fn solve_triangular(call: &Call) -> Answer {
    let (a, b, left) = (call.tensor("self")?, call.tensor("B")?, call.bool("left")?);
    check_square(call, &a)?;
    check(b.rank() >= 2, || "linalg.solve_triangular: The input tensor B must have at least 2 dimensions.".to_owned())?;
    check_fit(call, &a, &b, left)?;
    let (is_upper, is_unit) = (call.bool("upper")?, call.bool("unitriangular")?);
    // For `XA = B`, the other triangle, transposed.
    let triangle = Triangle { is_upper: is_upper == left, is_unit };
    one(solved(call, (&a, &b), left, |a, n, b, m| triangle.solve(a, n, b, m))?)
}

fn matrix_power(call: &Call) -> Answer {
    let (x, n) = (call.tensor("self")?, call.int("n")?);
    let size = check_square(call, &x)?;
    if n == 0 {
        let count = layout::numel(&x.shape()[..x.rank() - 2]);
        return one(like(call, &identity(size).repeat(count), x.dtype(), x.shape(), &x));
    }
    let mut square = if n < 0 { inverted(call, &x)? } else { x };
    let (mut left, mut result) = (n.unsigned_abs(), None);
    if left == 1 {
        return one(if n < 0 { square } else { square.copied() });
    }
    while left > 0 {
        if left % 2 == 1 {
            result = Some(match &result {
                Some(result) => product(call, result, &square, None)?,
                None => square.clone(),
            });
        }
        left /= 2;
        if left > 0 {
            square = product(call, &square, &square, None)?;
        }
    }
    one(result.unwrap_or(square))
}
