//! Matrix products.
//!
//! All of them are `product`: batches of matrices, addressed by strides without copying, optionally
//! added to a base. `f32` and `f64` matrices of some size use [`gemm::Real::multiply`], all others
//! three loops in wide numbers.

use super::elements::{add, by_kind, check, like, multiply, placed, subtract};
use super::norms::norm_over;
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::environment::Release;
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::ir::Attribute;
use crate::symbol::Symbol;
use crate::tensor::blocks::{Rows, map1};
use crate::tensor::gemm::{self, Matrix, Real, Ring};
use crate::tensor::{C128, DType, Dims, Kind, Precision, Scalar, Tensor, layout};
use std::f64::consts::FRAC_1_SQRT_2;

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::mm", |call| plain(call, "self", "mat2", 2)),
    ("aten::bmm", |call| plain(call, "self", "mat2", 3)),
    ("aten::matmul", |call| one(matmul(call, &call.tensor("self")?, &call.tensor("other")?)?)),
    ("aten::mv", mv),
    ("aten::dot", |call| dot(call, false)),
    ("aten::vdot", |call| dot(call, true)),
    ("aten::addmm", |call| fused(call, "mat1", "mat2", 2)),
    ("aten::baddbmm", |call| fused(call, "batch1", "batch2", 3)),
    ("aten::addbmm", addbmm),
    ("aten::addmv", addmv),
    ("aten::addr", addr),
    ("aten::ger", outer),
    ("aten::outer", outer),
    ("aten::linear", linear),
    ("aten::chain_matmul", chain_matmul),
    ("aten::linalg_multi_dot", chain_matmul),
    ("aten::kron", kron),
    ("aten::cross", cross),
    ("aten::linalg_cross", cross),
    ("aten::trace", trace),
    ("aten::cdist", cdist),
    ("aten::_cdist_forward", cdist),
    ("aten::pairwise_distance", pairwise_distance),
    ("aten::cosine_similarity", cosine_similarity),
    ("prim::MMTreeReduce", mm_tree_reduce),
    ("prim::MMBatchSide", mm_batch_side),
    ("aten::_addmm_activation", _addmm_activation),
];

/// The base of a product: `beta base + alpha a b`. A beta of 0 hides NaN of the base.
#[derive(Clone, Copy)]
pub(super) struct Base<'a> {
    /// A tensor that has, or is broadcast to, the shape of the result.
    pub base: &'a Tensor,
    /// Factor of the base.
    pub beta: Scalar,
    /// Factor of the product.
    pub alpha: Scalar,
}

/// Products with fewer multiplications than this are exact up to the last bit: they are summed in
/// wide numbers.
const SMALL: usize = 4096;

/// Products of the last two dimensions; the dimensions before are equal in number and broadcast.
pub(super) fn product(call: &Call, a: &Tensor, b: &Tensor, base: Option<Base>) -> Result<Tensor, Stop> {
    let (ra, rb) = (a.rank(), b.rank());
    let (m, k, n) = (a.size(ra - 2), a.size(ra - 1), b.size(rb - 1));
    check(k == b.size(rb - 2), || {
        let per = |t: &Tensor| format!("{}x{}", t.size(t.rank() - 2), t.size(t.rank() - 1));
        format!("mat1 and mat2 shapes cannot be multiplied ({} and {})", per(a), per(b))
    })?;
    let dtype = same_dtype(a, b)?;
    let mut shape = layout::broadcast(&a.shape()[..ra - 2], &b.shape()[..rb - 2])?;
    let batches = shape.clone();
    shape.extend([m, n]);
    layout::checked(&shape)?;
    let expanded = |tensor: &Tensor| {
        let mut whole = batches.clone();
        whole.extend(tensor.shape()[tensor.rank() - 2..].iter().copied());
        tensor.broadcast_to(&whole)
    };
    let (a, b) = (expanded(a)?, expanded(b)?);
    let base = match base {
        Some(base) => Some((base.base.broadcast_to(&shape)?, base.beta, base.alpha)),
        None => None,
    };
    let work = Work { a: &a, b: &b, base: base.as_ref(), shape: &shape, dtype };
    let large = (m as usize).saturating_mul(k as usize).saturating_mul(n as usize) >= SMALL;
    let fast = large.then(|| work.fast::<f32>().or_else(|| work.fast::<f64>())).flatten();
    let result = fast.unwrap_or_else(|| by_kind!(dtype, W => work.slow::<W>(call.precision())));
    Ok(placed(result, &a))
}

/// The common element type of two factors.
fn same_dtype(a: &Tensor, b: &Tensor) -> Result<DType, Stop> {
    let (x, y) = (a.dtype(), b.dtype());
    check(x == y, || {
        let names = (x.python_name(), y.python_name());
        format!("expected m1 and m2 to have the same dtype, but got: {} != {}", names.0, names.1)
    })?;
    check(x != DType::Bool, || "\"addmm_impl_cpu_\" not implemented for 'Bool'".to_owned())?;
    Ok(x)
}

/// A product with checked and broadcast operands.
struct Work<'a> {
    a: &'a Tensor,
    b: &'a Tensor,
    base: Option<&'a (Tensor, Scalar, Scalar)>,
    shape: &'a [i64],
    dtype: DType,
}

impl Work<'_> {
    fn fast<T: Real>(&self) -> Option<Tensor> {
        let (a_memory, b_memory) = (self.a.storage().read(), self.b.storage().read());
        let (a, b) = (T::slice(&a_memory)?, T::slice(&b_memory)?);
        let (alpha, beta) = self.base.map_or((1.0, 0.0), |(_, beta, alpha)| (alpha.real(), beta.real()));
        let mut out = match self.base.filter(|_| beta != 0.0) {
            Some((base, ..)) => T::slice(&base.copied().storage().read())?.to_vec(),
            None => vec![T::default(); layout::numel(self.shape)],
        };
        let size = self.shape[self.shape.len() - 2..].iter().product::<i64>() as usize;
        for ((a_at, b_at), c) in matrices(self.a).zip(matrices(self.b)).zip(out.chunks_exact_mut(size.max(1))) {
            T::multiply(T::of(alpha), (a, a_at), (b, b_at), T::of(beta), c);
        }
        (T::DTYPE == self.dtype || self.dtype.is_float()).then(|| Tensor::new(T::buffer(out), self.dtype, self.shape))
    }

    fn slow<W: Ring>(&self, precision: Precision) -> Tensor {
        let (a, b) = (self.a.read::<W>(), self.b.read::<W>());
        let (m, n) = (self.shape[self.shape.len() - 2] as usize, self.shape[self.shape.len() - 1] as usize);
        let k = self.a.size(self.a.rank() - 1) as usize;
        let mut out = vec![W::default(); layout::numel(self.shape)];
        for (i, c) in out.chunks_exact_mut((m * n).max(1)).enumerate() {
            let (a, b) = (&a[i * m * k..(i + 1) * m * k], &b[i * k * n..(i + 1) * k * n]);
            gemm::naive(a, Matrix::in_rows(m, k), b, Matrix::in_rows(k, n), c);
        }
        if let Some((base, beta, alpha)) = self.base {
            weigh(&mut out, base, beta.wide(), alpha.wide());
        }
        Tensor::of(&out, self.dtype, self.shape, precision)
    }
}

/// `alpha out + beta base`
fn weigh<W: Ring>(out: &mut [W], base: &Tensor, beta: W, alpha: W) {
    for x in out.iter_mut() {
        *x = x.times(alpha);
    }
    if beta != W::default() {
        for (x, y) in out.iter_mut().zip(base.read::<W>()) {
            *x = x.plus_product(y, beta);
        }
    }
}

/// The matrices in the last two dimensions, in logical order.
fn matrices(tensor: &Tensor) -> impl Iterator<Item = Matrix> {
    let outer = tensor.rank() - 2;
    let (shape, strides): (Dims, Dims) = (tensor.shape().into(), tensor.strides().into());
    let start = tensor.offset();
    let count = layout::numel(&shape[..outer]);
    (0..count).map(move |mut i| {
        let mut offset = start;
        for dim in (0..outer).rev() {
            let size = shape[dim] as usize;
            offset += i % size * strides[dim] as usize;
            i /= size;
        }
        let (rows, cols) = (shape[outer] as usize, shape[outer + 1] as usize);
        Matrix { rows, cols, offset, row_stride: strides[outer] as usize, col_stride: strides[outer + 1] as usize }
    })
}

fn ranks(what: &str, tensor: &Tensor, rank: usize) -> Result<(), Stop> {
    check(tensor.rank() == rank, || format!("{what} must be a {rank}D tensor, but got {}D", tensor.rank()))
}

fn same_batches(a: &Tensor, b: &Tensor) -> Result<(), Stop> {
    let outer = a.rank() - 2;
    check(a.shape()[..outer] == b.shape()[..outer] && a.size(outer + 1) == b.size(outer), || {
        format!(
            "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
            a.size(0),
            a.size(outer + 1),
            b.size(0),
            b.size(outer)
        )
    })
}

fn plain(call: &Call, a: &str, b: &str, rank: usize) -> Answer {
    let (a, b) = (call.tensor(a)?, call.tensor(b)?);
    ranks("self", &a, rank)?;
    ranks("mat2", &b, rank)?;
    if rank == 3 {
        same_batches(&a, &b)?;
    }
    one(product(call, &a, &b, None)?)
}

/// `beta` and `alpha`, which must be integers for integer elements.
fn factors(call: &Call, dtype: DType) -> Result<(Scalar, Scalar), Stop> {
    let (beta, alpha) = (call.scalar("beta")?, call.scalar("alpha")?);
    for (name, factor) in [("beta", beta), ("alpha", alpha)] {
        check(!dtype.is_integral() || factor.kind() <= Kind::Int, || {
            format!("For integral input tensors, argument {name} must not be a floating point number.")
        })?;
    }
    Ok((beta, alpha))
}

fn fused(call: &Call, a: &str, b: &str, rank: usize) -> Answer {
    let (base, a, b) = (call.tensor("self")?, call.tensor(a)?, call.tensor(b)?);
    ranks("mat1", &a, rank)?;
    ranks("mat2", &b, rank)?;
    if rank == 3 {
        same_batches(&a, &b)?;
    }
    check(base.dtype() == a.dtype(), || {
        let names = (base.dtype().python_name(), a.dtype().python_name());
        format!("self and mat2 must have the same dtype, but got {} and {}", names.0, names.1)
    })?;
    let (beta, alpha) = factors(call, base.dtype())?;
    one(product(call, &a, &b, Some(Base { base: &base, beta, alpha }))?)
}

/// The batches are summed: one product of long matrices.
fn addbmm(call: &Call) -> Answer {
    let (base, a, b) = (call.tensor("self")?, call.tensor("batch1")?, call.tensor("batch2")?);
    ranks("batch1", &a, 3)?;
    ranks("batch2", &b, 3)?;
    same_batches(&a, &b)?;
    let (beta, alpha) = factors(call, base.dtype())?;
    let (batches, m, k, n) = (a.size(0), a.size(1), a.size(2), b.size(2));
    let (a, b) = (a.permute(&[1, 0, 2]).reshape(&[m, batches * k]), b.reshape(&[batches * k, n]));
    one(product(call, &a, &b, Some(Base { base: &base, beta, alpha }))?)
}

fn addmv(call: &Call) -> Answer {
    let (base, a, v) = (call.tensor("self")?, call.tensor("mat")?, call.tensor("vec")?);
    ranks("mat", &a, 2)?;
    ranks("vec", &v, 1)?;
    check(base.dtype() == same_dtype(&a, &v)?, || {
        let names = (base.dtype().name(), a.dtype().name());
        format!("expected scalar type {} but found {}", names.0, names.1)
    })?;
    let (beta, alpha) = factors(call, base.dtype())?;
    let base = base.broadcast_to(&[a.size(0)])?.unsqueeze(1);
    one(product(call, &a, &v.unsqueeze(1), Some(Base { base: &base, beta, alpha }))?.squeeze(&[1]))
}

fn addr(call: &Call) -> Answer {
    let (base, u, v) = (call.tensor("self")?, call.tensor("vec1")?, call.tensor("vec2")?);
    ranks("vec1", &u, 1)?;
    ranks("vec2", &v, 1)?;
    let (beta, alpha) = factors(call, base.dtype())?;
    one(product(call, &u.unsqueeze(1), &v.unsqueeze(0), Some(Base { base: &base, beta, alpha }))?)
}

fn mv(call: &Call) -> Answer {
    let (a, v) = (call.tensor("self")?, call.tensor("vec")?);
    ranks("self", &a, 2)?;
    ranks("vec", &v, 1)?;
    one(matmul(call, &a, &v)?)
}

fn dot(call: &Call, conjugate: bool) -> Answer {
    let a = call.tensor("self")?;
    let b = call.tensor("tensor").or_else(|_| call.tensor("other"))?;
    check(a.rank() == 1 && b.rank() == 1, || {
        format!("1D tensors expected, but got {}D and {}D tensors", a.rank(), b.rank())
    })?;
    check(a.size(0) == b.size(0), || {
        format!(
            "inconsistent tensor size, expected tensor {:?} and src {:?} to have the same number of elements, but got {} and {} elements respectively",
            a.shape(),
            b.shape(),
            a.numel(),
            b.numel()
        )
    })?;
    check(a.dtype() == b.dtype(), || {
        let names = (a.dtype().python_name(), b.dtype().python_name());
        format!("dot : expected both vectors to have same dtype, but found {} and {}", names.0, names.1)
    })?;
    let a = match conjugate && a.dtype().is_complex() {
        true => map1(&a, super::elements::same(call, a.dtype()), |z: C128| z.conj())?,
        false => a,
    };
    one(matmul(call, &a, &b)?)
}

/// The result of Python's `@`.
pub(super) fn matmul(call: &Call, a: &Tensor, b: &Tensor) -> Result<Tensor, Stop> {
    check(a.rank() > 0 && b.rank() > 0, || {
        format!("both arguments to matmul need to be at least 1D, but they are {}D and {}D", a.rank(), b.rank())
    })?;
    let (row, column) = (a.rank() == 1, b.rank() == 1);
    let (x, y) = (if row { a.unsqueeze(0) } else { a.clone() }, if column { b.unsqueeze(1) } else { b.clone() });
    check(x.size(x.rank() - 1) == y.size(y.rank() - 2) || !(row || column), || {
        format!(
            "size mismatch, got input ({}), mat ({}x{}), vec ({})",
            x.size(0),
            x.size(0),
            x.size(x.rank() - 1),
            y.size(y.rank() - 2)
        )
    })?;
    let result = match y.rank() {
        // One matrix for all batches: the batches are rows of one long matrix.
        2 if x.rank() > 2 => {
            let mut shape: Dims = x.shape().into();
            let k = shape.pop().unwrap_or(1);
            let long = product(call, &x.reshape(&[layout::numel(&shape) as i64, k]), &y, None)?;
            shape.push(y.size(1));
            long.reshape(&shape)
        }
        _ => product(call, &leading(&x, y.rank()), &leading(&y, x.rank()), None)?,
    };
    let rank = result.rank();
    let result = if column { result.select(rank - 1, 0) } else { result };
    Ok(if row { result.select(result.rank() - 1 - usize::from(!column), 0) } else { result })
}

/// Leading dimensions of size 1, up to a rank.
fn leading(tensor: &Tensor, rank: usize) -> Tensor {
    (tensor.rank()..rank).fold(tensor.clone(), |tensor, _| tensor.unsqueeze(0))
}

fn outer(call: &Call) -> Answer {
    let (u, v) = (call.tensor("self")?, call.tensor("vec2")?);
    check(u.rank() == 1 && v.rank() == 1, || {
        format!("outer: Expected 1-D argument self, but got {}-D", if u.rank() == 1 { v.rank() } else { u.rank() })
    })?;
    one(multiply(call, &u.unsqueeze(1), &v)?)
}

fn linear(call: &Call) -> Answer {
    let (x, weight) = (call.tensor("input")?, call.tensor("weight")?);
    if weight.rank() > 2 {
        let rank = weight.rank();
        return Err(Stop::raised(format!("t() expects a tensor with <= 2 dimensions, but self is {rank}D")));
    }
    let bias = call.opt_tensor("bias")?;
    if weight.rank() < 2 && bias.as_ref().is_some_and(|bias| are_rows(call, &x, bias)) {
        return Err(Stop::raised(format!("addmm: mat2 must be a matrix, got {}-D tensor", weight.rank())));
    }
    let result = affine(call, &x, &weight, bias.as_ref())?;
    let mut shape = Dims::from(&x.shape()[..x.rank().saturating_sub(1)]);
    shape.extend((weight.rank() == 2).then(|| weight.size(0)));
    if x.rank() == 2 || result.shape() == &shape[..] {
        return one(result);
    }
    // For one row the bias may be one row, too; otherwise it is added in place.
    match shape.len() == 1 && result.shape() == [1, shape[0]] && bias.is_some_and(|bias| bias.shape() == result.shape())
    {
        true => one(result.reshape(&shape)),
        false => {
            let whole = result.shape();
            Err(Stop::raised(format!("output with shape {:?} doesn't match the broadcast shape {whole:?}", &shape[..])))
        }
    }
}

/// Whether rows are merged and computed by the operator that takes matrices only. Before 2.0 those
/// of two dimensions were.
fn are_rows(call: &Call, x: &Tensor, bias: &Tensor) -> bool {
    x.rank() == 2 || call.release() >= Release(2, 0) && x.is_contiguous() && bias.rank() == 1
}

/// `x weight' + bias`
pub(super) fn affine(call: &Call, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor, Stop> {
    let transposed = if weight.rank() == 2 { weight.transpose(0, 1) } else { weight.clone() };
    match bias {
        Some(bias) if x.rank() == 2 && weight.rank() == 2 => {
            let (beta, alpha) = (Scalar::Int(1), Scalar::Int(1));
            product(call, x, &transposed, Some(Base { base: bias, beta, alpha }))
        }
        Some(bias) => add(call, &matmul(call, x, &transposed)?, bias),
        None => matmul(call, x, &transposed),
    }
}

fn chain_matmul(call: &Call) -> Answer {
    let matrices = call.tensors("matrices").or_else(|_| call.tensors("tensors"))?;
    let ends = [0, matrices.len().saturating_sub(1)];
    let vectors = call.kind().short() == "linalg_multi_dot";
    for (i, matrix) in matrices.iter().enumerate() {
        check(matrix.rank() == 2 || vectors && matrix.rank() == 1 && ends.contains(&i), || {
            format!("{}(): tensor {i} must be 2D but got {}D", call.kind().short(), matrix.rank())
        })?;
    }
    let (first, rest) = match matrices.split_first() {
        Some(split) => split,
        None => return Err(Stop::raised("chain_matmul(): Expected one or more matrices")),
    };
    one(rest.iter().try_fold(first.clone(), |left, right| matmul(call, &left, right))?)
}

fn kron(call: &Call) -> Answer {
    let (a, b) = (call.tensor("self")?, call.tensor("other")?);
    let rank = a.rank().max(b.rank());
    let (a, b) = (leading(&a, rank), leading(&b, rank));
    let shape: Dims = (0..rank).map(|i| a.size(i) * b.size(i)).collect();
    layout::checked(&shape)?;
    let (mut x, mut y) = (a, b);
    for i in 0..rank {
        x = x.unsqueeze(2 * i + 1);
        y = y.unsqueeze(2 * i);
    }
    one(multiply(call, &x, &y)?.reshape(&shape))
}

fn cross(call: &Call) -> Answer {
    let (a, b) = (call.tensor("self")?, call.tensor("other")?);
    let shape = layout::broadcast(a.shape(), b.shape())?;
    let (a, b) = (a.broadcast_to(&shape)?, b.broadcast_to(&shape)?);
    let dim = match call.opt_int("dim")? {
        Some(dim) => layout::wrap(dim, shape.len())?,
        None => shape.iter().position(|&n| n == 3).ok_or_else(|| Stop::raised("no dimension of size 3 in input"))?,
    };
    check(shape.get(dim) == Some(&3), || {
        format!("inputs dimension {dim} must have length 3. Got {} and {}", a.size(dim), b.size(dim))
    })?;
    let parts = (0..3i64).map(|i| {
        let (j, k) = ((i + 1) % 3, (i + 2) % 3);
        let plus = multiply(call, &a.select(dim, j), &b.select(dim, k))?;
        subtract(call, &plus, &multiply(call, &a.select(dim, k), &b.select(dim, j))?)
    });
    let parts = parts.collect::<Result<Vec<_>, Stop>>()?;
    let result = Tensor::zeros(parts[0].dtype(), &shape, call.precision());
    for (i, part) in parts.iter().enumerate() {
        result.select(dim, i as i64).copy_from(part)?;
    }
    one(placed(result, &a))
}

fn trace(call: &Call) -> Answer {
    let x = call.tensor("self")?;
    ranks("self", &x, 2)?;
    let n = x.size(0).min(x.size(1));
    let diagonal = x.as_strided(&[n], &[x.strides()[0] + x.strides()[1]], x.offset() as i64)?;
    let dtype = if x.dtype().is_integral() { DType::Long } else { x.dtype() };
    by_kind!(dtype, W => {
        let sum = diagonal.read::<W>().into_iter().fold(W::default(), W::plus);
        one(like(call, &[sum], dtype, &[], &x))
    })
}

fn cdist(call: &Call) -> Answer {
    let (a, b) = (call.tensor("x1")?, call.tensor("x2")?);
    for (name, x) in [("X1", &a), ("X2", &b)] {
        check(x.dtype().is_float(), || {
            format!("cdist only supports floating-point dtypes, {name} got: {}", x.dtype().name())
        })?;
    }
    check(a.rank() >= 2 && b.rank() >= 2, || "cdist only supports at least 2D tensors".to_owned())?;
    check(a.size(a.rank() - 1) == b.size(b.rank() - 1), || {
        format!(
            "X1 and X2 must have the same number of columns. X1: {} X2: {}",
            a.size(a.rank() - 1),
            b.size(b.rank() - 1)
        )
    })?;
    let p = call.float("p")?;
    check(p >= 0.0, || "cdist only supports non-negative p values".to_owned())?;
    let difference = subtract(call, &a.unsqueeze(a.rank() - 1), &b.unsqueeze(b.rank() - 2))?;
    let last = difference.rank() - 1;
    one(norm_over(call, &difference, p, &[last], false, difference.dtype())?)
}

fn pairwise_distance(call: &Call) -> Answer {
    let (a, b) = (call.tensor("x1")?, call.tensor("x2")?);
    one(distance(call, &a, &b, call.float("p")?, call.float("eps")?, call.bool("keepdim")?)?)
}

/// The norm of `a - b + eps` over the last dimension.
pub(super) fn distance(call: &Call, a: &Tensor, b: &Tensor, p: f64, eps: f64, keepdim: bool) -> Result<Tensor, Stop> {
    let difference = subtract(call, a, b)?;
    // `eps` is floating point, and so is a sum of integers with it.
    let difference = match difference.dtype().is_integral() {
        true => difference.converted(call.env.default_dtype(), call.precision()),
        false => difference,
    };
    let shifted = super::elements::apply(call, &difference, |x| x + eps)?;
    // Up to 1.4 the dimension after the batch, which is the last one of matrices.
    let dim = match call.release() < Release(1, 5) {
        true => 1.min(shifted.rank().saturating_sub(1)),
        false => shifted.rank().saturating_sub(1),
    };
    norm_over(call, &shifted, p, &[dim], keepdim, shifted.dtype())
}

fn cosine_similarity(call: &Call) -> Answer {
    let (a, b) = (call.tensor("x1")?, call.tensor("x2")?);
    one(cosine(call, &a, &b, call.int("dim")?, call.float("eps")?)?)
}

/// The cosine of the angles between rows. Up to 1.13 the product of lengths is bounded below, later
/// each length.
pub(super) fn cosine(call: &Call, a: &Tensor, b: &Tensor, dim: i64, eps: f64) -> Result<Tensor, Stop> {
    let shape = layout::broadcast(a.shape(), b.shape())?;
    let dim = layout::wrap(dim, shape.len())?;
    let dtype = crate::tensor::promotion::result_type(a, b);
    check(dtype.is_float(), || "expected common dtype to be floating point".to_owned())?;
    let rows = |t: &Tensor| -> Result<_, Stop> { Ok(Rows::<f64>::along(&t.broadcast_to(&shape)?, &[dim])) };
    let (a_rows, b_rows) = (rows(a)?, rows(b)?);
    let old = call.release() < Release(1, 5);
    let angle = |(u, v): (&[f64], &[f64])| {
        let sum = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let (uu, vv) = (sum(u, u), sum(v, v));
        let at_least = |x: f64, least: f64| if x < least { least } else { x };
        match old {
            true => sum(u, v) / at_least(uu * vv, eps * eps).sqrt(),
            false => sum(u, v) / (at_least(uu.sqrt(), eps) * at_least(vv.sqrt(), eps)),
        }
    };
    let angles: Vec<f64> = a_rows.iter().zip(b_rows.iter()).map(angle).collect();
    Ok(like(call, &angles, dtype, &a_rows.outer, a))
}

/// `prim::MMTreeReduce(a1, .., an, b1, .., bn)`: the sum of the products `ai bi`.
fn mm_tree_reduce(call: &Call) -> Answer {
    let factors = tensors(call)?;
    let (left, right) = factors.split_at(factors.len() / 2);
    let mut total: Option<Tensor> = None;
    for (a, b) in left.iter().zip(right) {
        let next = product(call, a, b, None)?;
        total = Some(total.map_or(Ok(next.clone()), |total| add(call, &total, &next))?);
    }
    one(total.ok_or_else(|| Stop::raised("MMTreeReduce without operands"))?)
}

/// `prim::MMBatchSide[side=0](common, b1, .., bn)`: the products of one matrix with each of the
/// others; with side 1 the common matrix is on the right.
fn mm_batch_side(call: &Call) -> Answer {
    let factors = tensors(call)?;
    let (common, others) = factors.split_first().ok_or_else(|| Stop::raised("MMBatchSide without operands"))?;
    let left = matches!(call.graph.attribute(call.node, Symbol::new("side")), Some(Attribute::Int(0)));
    let side = |other: &Tensor| match left {
        true => product(call, common, other, None),
        false => product(call, other, common, None),
    };
    several(others.iter().map(side).collect::<Result<Vec<Tensor>, Stop>>()?)
}

fn tensors(call: &Call) -> Result<Vec<Tensor>, Stop> {
    let matrix = |value: &IValue| value.tensor().filter(|tensor| tensor.rank() == 2).cloned();
    let found = call.args.iter().map(matrix).collect::<Option<Vec<_>>>();
    found.ok_or_else(|| Stop::raised("matrices expected"))
}

/// `aten::_addmm_activation`: the positive part of `addmm`, or its exact `gelu`.
fn _addmm_activation(call: &Call<'_>) -> Answer {
    let sum = fused(call, "mat1", "mat2", 2)?;
    let Some(IValue::Tensor(sum)) = sum.first() else { return Ok(sum) };
    let dtype = sum.dtype();
    if call.bool("use_gelu")? {
        super::elements::floats("GeluKernelImpl", sum)?;
        return one(super::elements::apply(call, sum, |x| x * 0.5 * libm::erfc(-x * FRAC_1_SQRT_2))?);
    }
    check(!dtype.is_complex(), || "clamp is not supported for complex types".to_owned())?;
    one(match dtype.is_integral() {
        true => map1(sum, super::elements::same(call, dtype), |x: i64| x.max(0))?,
        false => super::elements::apply(call, sum, |x| if x < 0.0 { 0.0 } else { x })?,
    })
}
