//! Elements picked, written and scattered by index or by mask.

use super::picking::{
    Number, changed, check_fits, coordinates, index_error, made_like, mapped, picked, place, placed, with_wide, wrapped,
};
use super::views::{diagonal_of, expanded, selected, sliced, strided};
use crate::interpreter::call::{Answer, Call, one};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::library::Row;
use crate::interpreter::stop::Stop;
use crate::tensor::layout::{self, Dims, wrap};
use crate::tensor::promotion::{Promotion, of_scalar};
use crate::tensor::{DType, Kind, Scalar, Tensor};

/// The rows.
pub const ROWS: &[Row] = &[
    ("aten::_index_put_impl_", index_put_in_place),
    ("aten::_s_where", where_),
    ("aten::_unsafe_index", index),
    ("aten::_unsafe_index_put", index_put),
    ("aten::argwhere", nonzero),
    ("aten::as_strided_scatter", view_scatter),
    ("aten::bucketize", bucketize),
    ("aten::copy_", copy_in_place),
    ("aten::diagonal_scatter", view_scatter),
    ("aten::fill", fill),
    ("aten::fill_", fill_in_place),
    ("aten::fill_diagonal_", fill_diagonal),
    ("aten::gather", gather),
    ("aten::index_add", index_add),
    ("aten::index_copy", index_copy),
    ("aten::index_fill", index_fill),
    ("aten::index_put", index_put),
    ("aten::index_put_", index_put_in_place),
    ("aten::index_reduce", index_reduce),
    ("aten::index_select", index_select),
    ("aten::masked_fill", masked_fill),
    ("aten::masked_scatter", masked_scatter),
    ("aten::masked_select", masked_select),
    ("aten::nonzero", nonzero),
    ("aten::nonzero_numpy", nonzero_numpy),
    ("aten::nonzero_static", nonzero_static),
    ("aten::one_hot", one_hot),
    ("aten::put", put),
    ("aten::scatter", scatter),
    ("aten::scatter_add", scatter),
    ("aten::scatter_reduce", scatter),
    ("aten::searchsorted", searchsorted),
    ("aten::select_scatter", view_scatter),
    ("aten::slice_scatter", view_scatter),
    ("aten::take", take),
    ("aten::take_along_dim", take_along_dim),
    ("aten::tril_indices", triangle_indices),
    ("aten::triu_indices", triangle_indices),
    ("aten::where", where_),
    ("aten::zero", zero),
    ("aten::zero_", zero_in_place),
];

fn short(call: &Call<'_>) -> &'static str {
    call.kind().as_str().trim_start_matches("aten::")
}

// ---- the index of Python

/// Which elements an index names: the shape of the result, and the place of each element.
struct Chosen {
    shape: Dims,
    places: Vec<usize>,
}

/// Masks as the coordinates of their true elements; everything else as it is.
fn without_masks(x: &Tensor, indices: Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>, Stop> {
    let mut plain = Vec::new();
    for index in indices {
        match index {
            Some(mask) if matches!(mask.dtype(), DType::Bool | DType::Byte) => {
                for (i, &size) in mask.shape().iter().enumerate() {
                    let at = plain.len() + i;
                    if at >= x.rank() || x.size(at) != size {
                        return Err(index_error(format!(
                            "The shape of the mask {:?} at index {i} does not match the shape of the indexed tensor {:?} at index {at}",
                            mask.shape(),
                            x.shape()
                        )));
                    }
                }
                plain.extend(true_coordinates(&mask).into_iter().map(Some));
            }
            Some(index) if !matches!(index.dtype(), DType::Long | DType::Int) => {
                return Err(index_error("tensors used as indices must be long, int, byte or bool tensors"));
            }
            other => plain.push(other),
        }
    }
    Ok(plain)
}

/// The coordinates of the elements that count as true, one tensor per dimension.
fn true_coordinates(mask: &Tensor) -> Vec<Tensor> {
    let found = true_places(mask);
    let column = |dim: usize| {
        let numbers: Vec<i64> = found.iter().map(|at| at[dim]).collect();
        let n = numbers.len() as i64;
        placed(Tensor::from_elements(numbers, &[n]), mask)
    };
    (0..mask.rank()).map(column).collect()
}

fn true_places(mask: &Tensor) -> Vec<Dims> {
    let is_true: Vec<bool> = with_wide!(mask.dtype(), W => {
        mask.read::<W>().iter().map(|&x| x != W::default()).collect()
    });
    let mut next = is_true.iter();
    let at = coordinates(mask.shape(), |at| next.next().is_some_and(|&x| x).then(|| Dims::from_slice(at)));
    at.into_iter().flatten().collect()
}

/// Where the dimensions of the index stand among those of the result: in front unless the indexed dimensions are neighbours.
fn front(indices: &[Option<Tensor>]) -> usize {
    let defined: Vec<usize> = (0..indices.len()).filter(|&i| indices[i].is_some()).collect();
    match (defined.first(), defined.last()) {
        (Some(&first), Some(&last)) if last - first + 1 == defined.len() => first,
        _ => 0,
    }
}

fn chosen(x: &Tensor, indices: Vec<Option<Tensor>>) -> Result<Chosen, Stop> {
    let indices = without_masks(x, indices)?;
    if indices.len() > x.rank() {
        return Err(index_error(format!(
            "too many indices for tensor of dimension {} (got {})",
            x.rank(),
            indices.len()
        )));
    }
    let shapes: Vec<&[i64]> = indices.iter().flatten().map(|index| index.shape()).collect();
    let common = layout::broadcast_all(shapes.iter().copied()).map_err(|_| {
        let shapes: Vec<String> = shapes.iter().map(|shape| format!("{shape:?}")).collect();
        index_error(format!(
            "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
            shapes.join(", ")
        ))
    })?;
    let columns: Vec<(usize, Vec<i64>)> = (indices.iter().enumerate())
        .filter_map(|(dim, index)| index.as_ref().map(|index| (dim, index)))
        .map(|(dim, index)| Ok((dim, column(x, dim, index, &common)?)))
        .collect::<Result<_, Stop>>()?;
    let kept: Vec<usize> = (0..x.rank()).filter(|dim| columns.iter().all(|(taken, _)| taken != dim)).collect();
    let front = front(&indices);
    let mut shape: Dims = kept.iter().map(|&dim| x.size(dim)).collect();
    shape.insert_many(front, common.iter().copied());
    layout::checked(&shape)?;
    let (strides, inner) = (layout::contiguous(x.shape()), layout::contiguous(&common));
    let places = coordinates(&shape, |at| {
        let row = place(&at[front..front + common.len()], &inner);
        let others = at[..front].iter().chain(&at[front + common.len()..]);
        let outside: i64 = kept.iter().zip(others).map(|(&dim, at)| at * strides[dim]).sum();
        let inside: i64 = columns.iter().map(|(dim, column)| column[row] * strides[*dim]).sum();
        (outside + inside) as usize
    });
    Ok(Chosen { shape, places })
}

/// The numbers of one index, stretched to the shape of all, counted from the front.
fn column(x: &Tensor, dim: usize, index: &Tensor, shape: &[i64]) -> Result<Vec<i64>, Stop> {
    let size = x.size(dim);
    let numbers = index.broadcast_to(shape)?.read::<i64>();
    numbers
        .into_iter()
        .map(|n| {
            wrapped(n, size)
                .ok_or_else(|| index_error(format!("index {n} is out of bounds for dimension {dim} with size {size}")))
        })
        .collect()
}

/// `x[i, j]`.
pub(super) fn index(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let Chosen { shape, places } = chosen(&x, call.opt_tensors("indices")?)?;
    one(picked(call, &x, &places, &shape))
}

fn write_chosen(call: &Call<'_>, x: &Tensor) -> Result<(), Stop> {
    let (values, accumulate) = (call.tensor("values")?, call.bool("accumulate")?);
    if values.dtype() != x.dtype() {
        return Err(Stop::raised(format!(
            "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
            x.dtype().name(),
            values.dtype().name()
        )));
    }
    let Chosen { shape, places } = chosen(x, call.opt_tensors("indices")?)?;
    let values = layout_fit(&values, &shape)?;
    with_wide!(x.dtype(), W => {
        let mut elements = x.read::<W>();
        for (place, value) in places.into_iter().zip(values.read::<W>()) {
            let slot = &mut elements[place];
            *slot = if accumulate { slot.plus(value) } else { value };
        }
        x.write(&elements);
    });
    Ok(())
}

/// Values stretched to the result of an index; dimensions of size 1 in front may be too many.
fn layout_fit(values: &Tensor, shape: &[i64]) -> Result<Tensor, Stop> {
    let mut fitted = values.clone();
    while fitted.rank() > shape.len() && fitted.size(0) == 1 {
        fitted = fitted.select(0, 0);
    }
    fitted.broadcast_to(shape).map_err(|_| {
        Stop::raised(format!(
            "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape {shape:?}",
            values.shape()
        ))
    })
}

fn index_put(call: &Call<'_>) -> Answer {
    one(changed(&call.tensor("self")?, |copy| write_chosen(call, copy))?)
}

fn index_put_in_place(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    write_chosen(call, &x)?;
    one(x)
}

// ---- along one dimension

/// A vector of indices; a tensor without dimensions is one index.
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

/// The slices of a copy of `self` that an index names, each with its slice of `source`.
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
        with_wide!(to.dtype(), W => {
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

/// A tensor seen with at least one dimension.
fn dimensioned(x: &Tensor) -> Tensor {
    if x.rank() == 0 { x.unsqueeze(0) } else { x.clone() }
}

/// Checks an index that names a place along `dim` for each of its own places.
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

/// The places in `x` that an index of the same rank names along `dim`, in the order of the index.
fn places_along(x: &Tensor, index: &Tensor, numbers: &[i64], dim: usize) -> Vec<usize> {
    let strides = layout::contiguous(x.shape());
    let mut next = numbers.iter();
    coordinates(index.shape(), |at| {
        let mut there: Dims = at.into();
        there[dim] = next.next().copied().unwrap_or(0);
        place(&there, &strides)
    })
}

fn gathered(call: &Call<'_>, x: &Tensor, index: &Tensor, dim: i64) -> Result<Tensor, Stop> {
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

/// What happens where something is written.
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

/// Writes values at places. Without `include` the first value at a place stands for what was there.
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
        with_wide!(x.dtype(), W => {
            let mut elements = copy.read::<W>();
            let values = source.read::<W>();
            let writes: Vec<(usize, W)> = places.into_iter().zip(values).collect();
            combine_at(&mut elements, &writes, combine, include);
            copy.write(&elements);
        });
        Ok(())
    })?)
}

/// The values that are scattered, in the shape of the index.
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
    with_wide!(x.dtype(), W => {
        let mut elements = x.read::<W>();
        let writes: Vec<(usize, W)> = places.into_iter().zip(source.read::<W>()).collect();
        combine_at(&mut elements, &writes, combine, include);
        one(made_like(call, &x, &elements, x.dtype(), x.shape()))
    })
}

// ---- masks

fn check_mask(call: &Call<'_>, mask: &Tensor) -> Result<(), Stop> {
    match mask.dtype() {
        DType::Bool | DType::Byte => Ok(()),
        other => Err(Stop::raised(format!(
            "{}_ only supports boolean masks, but got mask with dtype {}",
            short(call),
            other.name()
        ))),
    }
}

fn masked_fill(call: &Call<'_>) -> Answer {
    let (x, mask) = (call.tensor("self")?, call.tensor("mask")?);
    check_mask(call, &mask)?;
    if let Some(IValue::Tensor(value)) = call.look("value")
        && value.rank() > 0
    {
        return Err(Stop::raised(format!(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
            value.rank()
        )));
    }
    let value = call.scalar("value")?;
    check_fits(value, x.dtype())?;
    let shape = layout::broadcast(x.shape(), mask.shape())?;
    let mask = expanded(&mask, &shape)?.read::<i64>();
    let x = expanded(&x, &shape)?;
    with_wide!(x.dtype(), W => {
        let mut elements = x.read::<W>();
        for (element, _) in elements.iter_mut().zip(&mask).filter(|(_, mask)| **mask != 0) {
            *element = value.wide();
        }
        one(made_like(call, &x, &elements, x.dtype(), &shape))
    })
}

fn masked_select(call: &Call<'_>) -> Answer {
    let (x, mask) = (call.tensor("self")?, call.tensor("mask")?);
    if !matches!(mask.dtype(), DType::Bool | DType::Byte) {
        return Err(Stop::raised("masked_select: expected BoolTensor for mask"));
    }
    let shape = layout::broadcast(x.shape(), mask.shape())?;
    let mask = expanded(&mask, &shape)?.read::<i64>();
    let places: Vec<usize> = (0..mask.len()).filter(|&i| mask[i] != 0).collect();
    one(picked(call, &expanded(&x, &shape)?, &places, &[places.len() as i64]))
}

fn masked_scatter(call: &Call<'_>) -> Answer {
    let (x, mask, source) = (call.tensor("self")?, call.tensor("mask")?, call.tensor("source")?);
    check_mask(call, &mask)?;
    if x.dtype() != source.dtype() {
        return Err(Stop::raised(format!(
            "masked_scatter: expected self and source to have same dtypes but got {} and {}",
            x.dtype().name(),
            source.dtype().name()
        )));
    }
    let shape = layout::broadcast(x.shape(), mask.shape())?;
    let mask = expanded(&mask, &shape)?.read::<i64>();
    let x = expanded(&x, &shape)?;
    let wanted = mask.iter().filter(|&&mask| mask != 0).count();
    if source.numel() < wanted {
        return Err(Stop::raised(format!(
            "masked_scatter: expected number of elements in source ({}) to be at least the number of ones in mask ({wanted})",
            source.numel()
        )));
    }
    with_wide!(x.dtype(), W => {
        let mut elements = x.read::<W>();
        let slots = elements.iter_mut().zip(&mask).filter(|(_, mask)| **mask != 0);
        slots.zip(source.read::<W>()).for_each(|((slot, _), value)| *slot = value);
        one(made_like(call, &x, &elements, x.dtype(), &shape))
    })
}

// ---- flat places

/// The places that an index into all elements names.
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
    with_wide!(x.dtype(), W => {
        let mut elements = x.read::<W>();
        let writes: Vec<(usize, W)> = places.into_iter().zip(source.read::<W>()).collect();
        combine_at(&mut elements, &writes, combine, true);
        one(made_like(call, &x, &elements, x.dtype(), x.shape()))
    })
}

// ---- choosing

/// A tensor or a number of a call, with what it adds to promotion.
fn choice(call: &Call<'_>, name: &str, seen: Promotion) -> Result<(Tensor, Promotion), Stop> {
    match call.look(name).and_then(IValue::scalar) {
        Some(number) => {
            let dtype = of_scalar(number, call.env.default_dtype());
            Ok((Tensor::scalar(number, dtype, call.precision()), seen.scalar(number)))
        }
        None => {
            let x = call.tensor(name)?;
            Ok((x.clone(), seen.tensor(&x)))
        }
    }
}

fn where_(call: &Call<'_>) -> Answer {
    if call.args.len() == 1 {
        return coordinates_list(call.tensor("condition")?);
    }
    let condition = call.tensor("condition")?;
    if !matches!(condition.dtype(), DType::Bool | DType::Byte) {
        return Err(Stop::raised(format!(
            "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
            condition.dtype().name()
        )));
    }
    let (x, seen) = choice(call, "self", Promotion::default())?;
    let (y, seen) = choice(call, "other", seen)?;
    let dtype = match (call.look("self").and_then(IValue::scalar), call.look("other").and_then(IValue::scalar)) {
        (Some(_), Some(_)) => crate::tensor::promotion::join(x.dtype(), y.dtype()),
        _ => seen.result(),
    };
    let shape = layout::broadcast_all([condition.shape(), x.shape(), y.shape()])?;
    layout::checked(&shape)?;
    let condition = condition.broadcast_to(&shape)?;
    let taken = condition.read::<i64>();
    with_wide!(dtype, W => {
        let read = |x: &Tensor| -> Result<Vec<W>, Stop> {
            let x = if x.dtype() == dtype { x.clone() } else { x.converted(dtype, call.precision()) };
            Ok(x.broadcast_to(&shape)?.read::<W>())
        };
        let pairs = read(&x)?.into_iter().zip(read(&y)?);
        let chosen: Vec<W> = taken.iter().zip(pairs).map(|(&c, (x, y))| if c != 0 { x } else { y }).collect();
        let device = [&x, &y].into_iter().find(|x| x.rank() > 0).unwrap_or(&condition);
        one(made_like(call, device, &chosen, dtype, &shape))
    })
}

fn nonzero(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let found = true_places(&x);
    let flat: Vec<i64> = found.iter().flatten().copied().collect();
    one(made_like(call, &x, &flat, DType::Long, &[found.len() as i64, x.rank() as i64]))
}

fn coordinates_list(x: Tensor) -> Answer {
    one(IValue::list(true_coordinates(&dimensioned(&x))))
}

fn nonzero_numpy(call: &Call<'_>) -> Answer {
    coordinates_list(call.tensor("self")?)
}

fn nonzero_static(call: &Call<'_>) -> Answer {
    let (x, size, value) = (call.tensor("self")?, call.int("size")?, call.int("fill_value")?);
    if size < 0 {
        return Err(Stop::raised("nonzero_static: 'size' must be an non-negative integer"));
    }
    let total = layout::checked(&[size, x.rank() as i64])?;
    let mut flat: Vec<i64> = true_places(&x).iter().flatten().copied().collect();
    flat.resize(total, value);
    one(made_like(call, &x, &flat, DType::Long, &[size, x.rank() as i64]))
}

// ---- writing

fn copy_in_place(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let source = if call.look("src").is_some() { call.tensor("src")? } else { call.tensor("other")? };
    x.copy_from(&expanded_over(&source, &x)?)?;
    one(x)
}

fn expanded_over(source: &Tensor, x: &Tensor) -> Result<Tensor, Stop> {
    let mut source = source.clone();
    while source.rank() > x.rank() && source.size(0) == 1 {
        source = source.select(0, 0);
    }
    expanded(&source, x.shape())
}

/// The number that a fill writes.
fn filling(call: &Call<'_>, x: &Tensor) -> Result<Scalar, Stop> {
    if let Some(IValue::Tensor(value)) = call.look("value")
        && value.rank() > 0
    {
        return Err(Stop::raised(format!(
            "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
            value.rank()
        )));
    }
    let value = call.scalar("value")?;
    check_fits(value, x.dtype())?;
    Ok(value)
}

fn fill(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let value = filling(call, &x)?;
    one(placed(Tensor::full(value, x.dtype(), x.shape(), call.precision()), &x))
}

fn fill_in_place(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    x.fill(filling(call, &x)?);
    one(x)
}

fn zero(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    one(placed(Tensor::zeros(x.dtype(), x.shape(), call.precision()), &x))
}

fn zero_in_place(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    x.fill(Scalar::Int(0));
    one(x)
}

fn fill_diagonal(call: &Call<'_>) -> Answer {
    let (x, value, wrap) = (call.tensor("self")?, call.scalar("fill_value")?, call.bool("wrap")?);
    if x.rank() < 2 {
        return Err(Stop::raised("dimensions must larger than 1"));
    }
    if x.rank() > 2 && x.shape().iter().any(|&n| n != x.size(0)) {
        return Err(Stop::raised("all dimensions of input must be of equal length"));
    }
    check_fits(value, x.dtype())?;
    let side = x.shape().iter().copied().min().unwrap_or(0);
    let period = x.size(1) + 1;
    let mut row = 0;
    let on_diagonal = coordinates(x.shape(), |at| {
        let plain = at.iter().all(|&n| n == at[0]) && at[0] < side;
        let again = wrap && x.rank() == 2 && (at[0] % period) == at[1];
        row += 1;
        plain || again
    });
    with_wide!(x.dtype(), W => {
        let mut elements = x.read::<W>();
        elements.iter_mut().zip(on_diagonal).filter(|(_, on)| *on).for_each(|(x, _)| *x = value.wide());
        x.write(&elements);
    });
    one(x)
}

/// A copy of a tensor in which a view of it was written over.
fn view_scatter(call: &Call<'_>) -> Answer {
    let (x, source) = (call.tensor("self")?, call.tensor("src")?);
    one(changed(&x, |copy| {
        let view = match short(call) {
            "select_scatter" => selected(copy, call.int("dim")?, call.int("index")?)?,
            "slice_scatter" => sliced(call, copy)?,
            "diagonal_scatter" => diagonal_of(call, copy)?,
            _ => strided(copy, &call.ints("size")?, &call.ints("stride")?, call.opt_int("storage_offset")?)?,
        };
        if view.shape() != source.shape() {
            return Err(Stop::raised(format!(
                "expected src to have a size equal to the slice of self. src size = {:?}, slice size = {:?}",
                source.shape(),
                view.shape()
            )));
        }
        Ok(view.copy_from(&source)?)
    })?)
}

// ---- classes and bins

fn one_hot(call: &Call<'_>) -> Answer {
    let (x, classes) = (call.tensor("self")?, call.int("num_classes")?);
    if x.dtype() != DType::Long {
        return Err(Stop::raised(format!(
            "one_hot is only applicable to index tensor of type LongTensor, got {}",
            x.dtype().name()
        )));
    }
    let numbers = x.read::<i64>();
    let refuse = |message: &str| Err(Stop::raised(message.to_owned()));
    if numbers.is_empty() && classes <= 0 {
        return refuse("Can not infer total number of classes from empty tensor.");
    }
    if numbers.iter().any(|&n| n < 0) {
        return refuse("Class values must be non-negative.");
    }
    let most = numbers.iter().copied().max().unwrap_or(0);
    if classes == 0 || classes < -1 {
        return refuse("num_classes should be positive");
    }
    let classes = if classes == -1 { most.saturating_add(1) } else { classes };
    if most >= classes && !numbers.is_empty() {
        return refuse("Class values must be smaller than num_classes.");
    }
    let mut shape: Dims = x.shape().into();
    shape.push(classes);
    let mut elements = vec![0i64; layout::checked(&shape)?];
    for (i, &n) in numbers.iter().enumerate() {
        elements[i * classes as usize + n as usize] = 1;
    }
    one(made_like(call, &x, &elements, DType::Long, &shape))
}

/// How many elements of a sorted row come before a number.
fn bin(row: &[f64], x: f64, right: bool) -> i64 {
    let before = |&edge: &f64| if right { !x.is_below(edge) } else { edge.is_below(x) };
    row.iter().take_while(|edge| before(edge)).count() as i64
}

fn bins_dtype(call: &Call<'_>) -> Result<DType, Stop> {
    Ok(if call.bool("out_int32")? { DType::Int } else { DType::Long })
}

fn bucketize(call: &Call<'_>) -> Answer {
    let (x, edges, right) = (call.tensor("self")?, call.tensor("boundaries")?, call.bool("right")?);
    if edges.rank() != 1 {
        return Err(Stop::raised(format!("boundaries tensor must be 1 dimension, but got dim({})", edges.rank())));
    }
    let row = edges.read::<f64>();
    let bins: Vec<i64> = x.read::<f64>().into_iter().map(|x| bin(&row, x, right)).collect();
    one(made_like(call, &x, &bins, bins_dtype(call)?, x.shape()))
}

fn searchsorted(call: &Call<'_>) -> Answer {
    let (mut sorted, x) = (call.tensor("sorted_sequence")?, call.tensor("self")?);
    let right = call.bool("right")? || call.opt_str("side")?.is_some_and(|side| side == "right");
    if let Some(sorter) = call.opt_tensor("sorter")? {
        sorted = gathered(call, &sorted, &sorter, -1)?;
    }
    let batch = sorted.shape().split_last().map(|(_, batch)| batch.to_vec());
    let Some(batch) = batch else {
        return Err(Stop::raised(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1",
        ));
    };
    let fits = batch.is_empty() || (x.rank() == sorted.rank() && x.shape()[..batch.len()] == batch[..]);
    if !fits {
        return Err(Stop::raised(format!(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor {:?} and input value tensor {:?}",
            sorted.shape(),
            x.shape()
        )));
    }
    let (edges, numbers) = (sorted.read::<f64>(), x.read::<f64>());
    let len = sorted.size(batch.len()) as usize;
    let per_row = if batch.is_empty() { numbers.len() } else { x.size(batch.len()) as usize };
    let find = |(i, &x): (usize, &f64)| bin(&edges[i / per_row.max(1) * len..][..len], x, right);
    let bins: Vec<i64> = numbers.iter().enumerate().map(find).collect();
    one(made_like(call, &x, &bins, bins_dtype(call)?, x.shape()))
}

fn triangle_indices(call: &Call<'_>) -> Answer {
    let (rows, columns, offset) = (call.int("row")?, call.int("col")?, call.int("offset")?);
    let lower = short(call) == "tril_indices";
    let dtype = call.opt_dtype("dtype")?.unwrap_or(DType::Long);
    if dtype.arithmetic() != Some(Kind::Int) {
        return Err(Stop::raised(format!("\"{}\" not implemented for '{}'", short(call), dtype.name())));
    }
    layout::checked(&[rows, columns])?;
    let inside = |row: i64, column: i64| if lower { column - row <= offset } else { column - row >= offset };
    let all = coordinates(&[rows, columns], |at| inside(at[0], at[1]).then_some((at[0], at[1])));
    let found: Vec<(i64, i64)> = all.into_iter().flatten().collect();
    let flat: Vec<i64> = found.iter().map(|at| at.0).chain(found.iter().map(|at| at.1)).collect();
    let made = call.made(&flat, dtype, &[2, found.len() as i64]);
    one(match call.opt_device("device") {
        Some(device) => made.on(device),
        None => made,
    })
}
