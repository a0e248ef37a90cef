//! Elements gathered and scattered in a dimension, and by flat index.

use super::elements::{by_kind, like};
use super::picking::{Number, changed, check_fits, coordinates, index_error, mapped, picked, place, wrapped};
use super::views::expanded;
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::stop::Stop;
use crate::tensor::gemm::Ring;
use crate::tensor::layout::{self, Dims, wrap};
use crate::tensor::{DType, Scalar, Tensor};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::gather", gather),
    ("aten::index_add", index_add),
    ("aten::index_copy", index_copy),
    ("aten::index_fill", index_fill),
    ("aten::index_reduce", index_reduce),
    ("aten::index_select", index_select),
    ("aten::put", put),
    ("aten::scatter", scatter),
    ("aten::scatter_add", scatter),
    ("aten::scatter_reduce", scatter),
    ("aten::take", take),
    ("aten::take_along_dim", take_along_dim),
    ("aten::value_selecting_reduction_backward", value_selecting_reduction_backward),
];

fn short(call: &Call<'_>) -> &'static str {
    call.kind().as_str().trim_start_matches("aten::")
}

// ---- in one dimension

/// A vector of indices; a zero-dimensional tensor is one index.
fn vector(call: &Call<'_>) -> Result<Vec<i64>, Stop> {
    let index = call.tensor("index")?;
    if index.rank() > 1 {
        return Err(index_error(format!("{}(): Index is supposed to be a vector", short(call))));
    }
    if !matches!(index.dtype(), DType::Long | DType::Int) {
        return Err(Stop::raised(format!("{}(): Expected dtype int32/int64 for index", short(call))));
    }
    Ok(index.read())
}

fn in_range(index: i64, size: i64) -> Result<i64, Stop> {
    if (0..size).contains(&index) { Ok(index) } else { Err(index_error("index out of range in self")) }
}

fn index_select(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let (dim, index) = (wrap(call.int("dim")?, x.rank())?, vector(call)?);
    for &i in &index {
        in_range(i, x.size(dim))?;
    }
    let mut shape: Dims = x.shape().into();
    match shape.get_mut(dim) {
        Some(size) => *size = index.len() as i64,
        None if index.len() == 1 => return one(x.copied()),
        None => return Err(index_error("index_select(): Index to scalar can have only 1 value")),
    }
    let strides = layout::contiguous(x.shape());
    one(mapped(call, &x, &shape, |at| {
        let mut there: Dims = at.into();
        there[dim] = index[at[dim] as usize];
        place(&there, &strides)
    })?)
}

/// Calls `f` for the slices of a copy of `self` that an index selects, each with its slice of
/// `source`.
fn each_slice(call: &Call<'_>, f: impl Fn(&Tensor, &Tensor) -> Result<(), Stop>) -> Answer {
    let (x, source) = (call.tensor("self")?, call.tensor("source")?);
    let (dim, index) = (wrap(call.int("dim")?, x.rank())?, vector(call)?);
    if x.dtype() != source.dtype() {
        return Err(Stop::raised(format!(
            "{}(): self and source expected to have the same dtype, but got (self) {} and (source) {}",
            short(call),
            x.dtype().name(),
            source.dtype().name()
        )));
    }
    let source = if source.rank() == 0 { source.reshape(&[1]) } else { source };
    let copy = x.copied();
    let target = if x.rank() == 0 { copy.reshape(&[1]) } else { copy.clone() };
    if source.rank() != target.rank() || source.size(dim) != index.len() as i64 {
        return Err(index_error(format!(
            "{}(): Number of indices ({}) should be equal to source.size(dim) ({})",
            short(call),
            index.len(),
            source.size(dim)
        )));
    }
    for (i, &at) in index.iter().enumerate() {
        let (to, from) = (target.select(dim, in_range(at, target.size(dim))?), source.select(dim, i as i64));
        if to.shape() != from.shape() {
            return Err(index_error(format!(
                "{}(): Source/destination tensor must have same slice shapes.",
                short(call)
            )));
        }
        f(&to, &from)?;
    }
    one(copy)
}

fn index_add(call: &Call<'_>) -> Answer {
    let alpha = call.opt_scalar("alpha")?.unwrap_or(Scalar::Int(1));
    each_slice(call, |to, from| {
        by_kind!(to.dtype(), W => {
            let sum = |(&a, &b): (&W, &W)| a.plus(b.times(alpha.wide()));
            to.write(&to.read::<W>().iter().zip(&from.read::<W>()).map(sum).collect::<Vec<_>>());
        });
        Ok(())
    })
}

fn index_copy(call: &Call<'_>) -> Answer {
    each_slice(call, |to, from| Ok(to.copy_from(from)?))
}

fn index_fill(call: &Call<'_>) -> Answer {
    let (x, value) = (call.tensor("self")?, call.scalar("value")?);
    check_fits(value, x.dtype())?;
    let (dim, index) = (wrap(call.int("dim")?, x.rank())?, vector(call)?);
    one(changed(&x, |copy| {
        for &i in &index {
            let at = wrapped(i, x.size(dim)).ok_or_else(|| index_error("index out of range in self"))?;
            if x.rank() == 0 { copy.fill(value) } else { copy.select(dim, at).fill(value) }
        }
        Ok(())
    })?)
}

/// A view of a tensor with at least one dimension.
pub(super) fn dimensioned(x: &Tensor) -> Tensor {
    if x.rank() == 0 { x.unsqueeze(0) } else { x.clone() }
}

/// Checks an index tensor, whose elements are positions in dimension `dim`.
fn check_index(call: &Call<'_>, x: &Tensor, index: &Tensor, dim: usize) -> Result<Vec<i64>, Stop> {
    if !matches!(index.dtype(), DType::Long | DType::Int) {
        return Err(Stop::raised(format!("{}(): Expected dtype int64 for index", short(call))));
    }
    if index.numel() > 0 && index.rank() != x.rank() {
        return Err(Stop::raised("Index tensor must have the same number of dimensions as input tensor"));
    }
    if index.numel() > 0 && (0..x.rank()).any(|i| i != dim && index.size(i) > x.size(i)) {
        return Err(Stop::raised(format!(
            "Size does not match at dimension {dim} expected index {:?} to be no larger than self {:?} apart from dimension {dim}",
            index.shape(),
            x.shape()
        )));
    }
    let size = x.size(dim);
    let numbers = index.read::<i64>();
    match numbers.iter().find(|n| !(0..size).contains(n)) {
        Some(n) => Err(Stop::raised(format!("index {n} is out of bounds for dimension {dim} with size {size}"))),
        None => Ok(numbers),
    }
}

/// The flat indices in `x` that an index tensor of the same rank selects in dimension `dim`, in the
/// order of the index.
fn places_along(x: &Tensor, index: &Tensor, numbers: &[i64], dim: usize) -> Vec<usize> {
    let strides = layout::contiguous(x.shape());
    let mut next = numbers.iter();
    coordinates(index.shape(), |at| {
        let mut there: Dims = at.into();
        there[dim] = next.next().copied().unwrap_or(0);
        place(&there, &strides)
    })
}

/// The elements that an index tensor of the same rank selects in a dimension.
pub(super) fn gathered(call: &Call<'_>, x: &Tensor, index: &Tensor, dim: i64) -> Result<Tensor, Stop> {
    let shape: Dims = index.shape().into();
    let (x, index) = (dimensioned(x), dimensioned(index));
    let dim = wrap(dim, x.rank())?;
    let numbers = check_index(call, &x, &index, dim)?;
    if numbers.is_empty() {
        return Ok(picked(call, &x, &[], &shape));
    }
    Ok(picked(call, &x, &places_along(&x, &index, &numbers, dim), &shape))
}

fn gather(call: &Call<'_>) -> Answer {
    one(gathered(call, &call.tensor("self")?, &call.tensor("index")?, call.int("dim")?)?)
}

fn take_along_dim(call: &Call<'_>) -> Answer {
    let (x, index) = (call.tensor("self")?, call.tensor("indices")?);
    let Some(dim) = call.opt_int("dim")? else {
        let flat = |x: &Tensor| x.reshape(&[x.numel() as i64]);
        return one(gathered(call, &flat(&x), &flat(&index), 0)?);
    };
    if x.rank() != index.rank() {
        return Err(Stop::raised(
            "torch.take_along_dim(): input and indices should have the same number of dimensions",
        ));
    }
    let dim = wrap(dim, x.rank())?;
    if x.rank() == 0 {
        return one(gathered(call, &x, &index, 0)?);
    }
    let wide = |own: &Tensor, other: &Tensor| -> Result<Tensor, Stop> {
        let mut shape = layout::broadcast(&ones_at(own, dim), &ones_at(other, dim))?;
        shape[dim] = own.size(dim);
        expanded(own, &shape)
    };
    one(gathered(call, &wide(&x, &index)?, &wide(&index, &x)?, dim as i64)?)
}

fn ones_at(x: &Tensor, dim: usize) -> Dims {
    let mut shape: Dims = x.shape().into();
    shape[dim] = 1;
    shape
}

// ---- scattering

/// The combination of a written value with the present one.
#[derive(Clone, Copy, PartialEq)]
enum Combine {
    Replace,
    Add,
    Multiply,
    Mean,
    Largest,
    Smallest,
}

fn combining(call: &Call<'_>) -> Result<Combine, Stop> {
    if call.kind().as_str().starts_with("aten::scatter_add") {
        return Ok(Combine::Add);
    }
    Ok(match call.opt_str("reduce")?.as_deref() {
        None => Combine::Replace,
        Some("add" | "sum") => Combine::Add,
        Some("multiply" | "prod") => Combine::Multiply,
        Some("mean") => Combine::Mean,
        Some("amax") => Combine::Largest,
        Some("amin") => Combine::Smallest,
        Some(other) => {
            return Err(Stop::raised(format!(
                "reduce argument must be either sum, prod, mean, amax or amin, got {other}"
            )));
        }
    })
}

impl Combine {
    fn two<W: Number>(self, old: W, new: W) -> W {
        match self {
            Combine::Replace => new,
            Combine::Add | Combine::Mean => old.plus(new),
            Combine::Multiply => old.times(new),
            _ if old.is_nan() || new.is_nan() => {
                if old.is_nan() {
                    old
                } else {
                    new
                }
            }
            Combine::Largest => {
                if old.is_below(new) {
                    new
                } else {
                    old
                }
            }
            Combine::Smallest => {
                if new.is_below(old) {
                    new
                } else {
                    old
                }
            }
        }
    }
}

/// Writes values at flat indices. Without `include` the first value replaces the present one.
fn combine_at<W: Number>(elements: &mut [W], writes: &[(usize, W)], combine: Combine, include: bool) {
    let mut counts = vec![i64::from(include); elements.len()];
    for &(place, value) in writes {
        let slot = &mut elements[place];
        *slot = if counts[place] == 0 { value } else { combine.two(*slot, value) };
        counts[place] += 1;
    }
    if combine == Combine::Mean {
        for (slot, &count) in elements.iter_mut().zip(&counts).filter(|(_, count)| **count > 1) {
            *slot = slot.over(W::load(count));
        }
    }
}

fn scatter(call: &Call<'_>) -> Answer {
    let (x, index) = (call.tensor("self")?, dimensioned(&call.tensor("index")?));
    let seen = dimensioned(&x);
    let dim = wrap(call.int("dim")?, x.rank())?;
    let combine = combining(call)?;
    let include = call.schema.is_none_or(|s| s.formal("include_self").is_none()) || call.bool("include_self")?;
    let source = scattered_source(call, &x, &index)?;
    if index.numel() == 0 {
        return one(x.copied());
    }
    let numbers = check_index(call, &seen, &index, dim)?;
    let places = places_along(&seen, &index, &numbers, dim);
    one(changed(&x, |copy| {
        by_kind!(x.dtype(), W => {
            let mut elements = copy.read::<W>();
            let values = source.read::<W>();
            let writes: Vec<(usize, W)> = places.into_iter().zip(values).collect();
            combine_at(&mut elements, &writes, combine, include);
            copy.write(&elements);
        });
        Ok(())
    })?)
}

/// The scattered values, in the shape of the index.
fn scattered_source(call: &Call<'_>, x: &Tensor, index: &Tensor) -> Result<Tensor, Stop> {
    if call.schema.is_some_and(|schema| schema.formal("value").is_some()) {
        let value = call.scalar("value")?;
        check_fits(value, x.dtype())?;
        return expanded(&Tensor::scalar(value, x.dtype(), call.precision()), index.shape());
    }
    let source = dimensioned(&call.tensor("src")?);
    if source.dtype() != x.dtype() {
        return Err(Stop::raised(format!("{}(): Expected self.dtype to be equal to src.dtype", short(call))));
    }
    if index.numel() == 0 {
        return Ok(source);
    }
    if source.rank() != index.rank() {
        return Err(Stop::raised("Index tensor must have the same number of dimensions as src tensor"));
    }
    if (0..index.rank()).any(|i| index.size(i) > source.size(i)) {
        return Err(Stop::raised(format!(
            "Expected index {:?} to be no larger than self {:?} apart from dimension and to be no larger size than src {:?}",
            index.shape(),
            x.shape(),
            source.shape()
        )));
    }
    Ok((0..index.rank()).fold(source, |source, i| source.narrow(i, 0, index.size(i), 1)))
}

fn index_reduce(call: &Call<'_>) -> Answer {
    let (x, source) = (call.tensor("self")?, call.tensor("source")?);
    let (dim, index) = (wrap(call.int("dim")?, x.rank())?, vector(call)?);
    let (combine, include) = (combining(call)?, call.bool("include_self")?);
    let fits = |i: usize| source.size(i) == if i == dim { index.len() as i64 } else { x.size(i) };
    if source.dtype() != x.dtype() || source.rank() != x.rank() || !(0..x.rank()).all(fits) || x.rank() == 0 {
        return Err(Stop::raised("index_reduce_(): Source/destination tensor must have same slice shapes and dtypes."));
    }
    for &i in &index {
        in_range(i, x.size(dim))?;
    }
    let strides = layout::contiguous(x.shape());
    let places = coordinates(source.shape(), |at| {
        let mut there: Dims = at.into();
        there[dim] = index[at[dim] as usize];
        place(&there, &strides)
    });
    by_kind!(x.dtype(), W => {
        let mut elements = x.read::<W>();
        let writes: Vec<(usize, W)> = places.into_iter().zip(source.read::<W>()).collect();
        combine_at(&mut elements, &writes, combine, include);
        one(like(call, &elements, x.dtype(), x.shape(), &x))
    })
}

// ---- flat indices

/// The flat indices in an index tensor.
fn flat_places(x: &Tensor, index: &Tensor) -> Result<Vec<usize>, Stop> {
    let n = x.numel() as i64;
    let find = |i: i64| {
        wrapped(i, n)
            .map(|i| i as usize)
            .ok_or_else(|| index_error(format!("out of range: tried to access index {i} on a tensor of {n} elements.")))
    };
    index.read::<i64>().into_iter().map(find).collect()
}

fn take(call: &Call<'_>) -> Answer {
    let (x, index) = (call.tensor("self")?, call.tensor("index")?);
    if index.dtype() != DType::Long {
        return Err(Stop::raised(format!(
            "take(): Expected a long tensor for index, but got {}",
            index.dtype().name()
        )));
    }
    one(picked(call, &x, &flat_places(&x, &index)?, index.shape()))
}

fn put(call: &Call<'_>) -> Answer {
    let (x, index, source) = (call.tensor("self")?, call.tensor("index")?, call.tensor("source")?);
    let combine = if call.bool("accumulate")? { Combine::Add } else { Combine::Replace };
    if index.numel() != source.numel() || source.dtype() != x.dtype() {
        return Err(Stop::raised(
            "put_(): Expected source and index to have the same number of elements, and self and source the same dtype",
        ));
    }
    let places = flat_places(&x, &index)?;
    by_kind!(x.dtype(), W => {
        let mut elements = x.read::<W>();
        let writes: Vec<(usize, W)> = places.into_iter().zip(source.read::<W>()).collect();
        combine_at(&mut elements, &writes, combine, true);
        one(like(call, &elements, x.dtype(), x.shape(), &x))
    })
}

/// `aten::value_selecting_reduction_backward`: zeros, but for the gradient of each row at the
/// position that a maximum, minimum or median selected.
fn value_selecting_reduction_backward(call: &Call<'_>) -> Answer {
    let (mut grad, mut index) = (call.tensor("grad")?, call.tensor("indices")?);
    let sizes = call.ints("sizes")?;
    let dim = wrap(call.int("dim")?, sizes.len())?;
    if let Some(size) = sizes.iter().find(|&&size| size < 0) {
        return Err(Stop::raised(format!("Trying to create tensor with negative dimension {size}: {sizes:?}")));
    }
    layout::checked(&sizes)?;
    if !call.bool("keepdim")? && !sizes.is_empty() {
        if dim > grad.rank().min(index.rank()) {
            return Err(index_error(format!("Dimension out of range for {:?}: {dim}", grad.shape())));
        }
        (grad, index) = (grad.unsqueeze(dim), index.unsqueeze(dim));
    }
    let whole = like(call, &vec![0i64; layout::numel(&sizes)], DType::Long, &sizes, &grad);
    let (whole, index) = (dimensioned(&whole), dimensioned(&index));
    let grad = dimensioned(&grad);
    if index.rank() != grad.rank() || (0..index.rank()).any(|i| index.size(i) > grad.size(i)) {
        let (index, grad) = (index.shape(), grad.shape());
        return Err(Stop::raised(format!("Expected index {index:?} to be no larger size than src {grad:?}")));
    }
    let numbers = check_index(call, &whole, &index, dim)?;
    let places = places_along(&whole, &index, &numbers, dim);
    let grad = grad_at(&grad, index.shape());
    by_kind!(grad.dtype(), W => {
        let mut elements = vec![W::default(); layout::numel(&sizes)];
        for (place, value) in places.into_iter().zip(grad.read::<W>()) {
            elements[place] = value;
        }
        one(like(call, &elements, grad.dtype(), &sizes, &grad))
    })
}

/// The first elements of each dimension.
fn grad_at(grad: &Tensor, shape: &[i64]) -> Tensor {
    (0..shape.len()).fold(grad.clone(), |part, dim| part.narrow(dim, 0, shape[dim], 1))
}
