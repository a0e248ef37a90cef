//! Views of the same memory, queries about shapes, and reordering copies.

use super::elements::{like, placed};
use super::picking::{index_error, wrapped};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::environment::Release;
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::layout::{self, Dims, Fault, wrap, wrap_all};
use crate::tensor::spare_memory::Fresh;
use crate::tensor::{C128, DType, Tensor};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::_conj", conj),
    ("aten::_reshape_alias", as_strided),
    ("aten::_shape_as_tensor", shape_as_tensor),
    ("aten::_unsafe_view", reshape),
    ("aten::adjoint", adjoint),
    ("aten::alias", alias),
    ("aten::alias_copy", copied),
    ("aten::as_strided", as_strided),
    ("aten::as_strided_", |call| in_place(call, as_strided)),
    ("aten::broadcast_to", expand),
    ("aten::clone", clone),
    ("aten::conj", conj),
    ("aten::conj_physical", conj),
    ("aten::contiguous", contiguous),
    ("aten::detach", detach),
    ("aten::detach_", detach_in_place),
    ("aten::detach_copy", copied),
    ("aten::diag", diag),
    ("aten::diag_embed", diag_embed),
    ("aten::diagonal", diagonal),
    ("aten::dim", dim),
    ("aten::expand", expand),
    ("aten::expand_as", expand_as),
    ("aten::flatten", flatten),
    ("aten::imag", imag),
    ("aten::is_contiguous", is_contiguous),
    ("aten::is_same_size", is_same_size),
    ("aten::len", len),
    ("aten::lift", |call| one(operand(call)?)),
    ("aten::lift_fresh", |call| one(operand(call)?)),
    ("aten::lift_fresh_copy", copied),
    ("aten::mH", adjoint),
    ("aten::mT", last_two_swapped),
    ("aten::matrix_H", adjoint),
    ("aten::moveaxis", movedim),
    ("aten::movedim", movedim),
    ("aten::narrow", narrow),
    ("aten::narrow_copy", narrow_copy),
    ("aten::numel", numel),
    ("aten::numpy_T", numpy_t),
    ("aten::permute", permute),
    ("aten::ravel", ravel),
    ("aten::real", real),
    ("aten::reshape", reshape),
    ("aten::reshape_as", view_as),
    ("aten::resize_", resize_in_place),
    ("aten::resize_as_", resize_in_place),
    ("aten::resolve_conj", |call| one(operand(call)?)),
    ("aten::resolve_neg", |call| one(operand(call)?)),
    ("aten::select", select),
    ("aten::select_copy", select_copy),
    ("aten::set_", metadata_in_place),
    ("aten::set_data", metadata_in_place),
    ("aten::size", size),
    ("aten::slice", slice),
    ("aten::slice_copy", slice_copy),
    ("aten::squeeze", squeeze),
    ("aten::squeeze_", |call| in_place(call, squeeze)),
    ("aten::storage_offset", storage_offset),
    ("aten::stride", stride),
    ("aten::swapaxes", transpose),
    ("aten::swapaxes_", |call| in_place(call, transpose)),
    ("aten::swapdims", transpose),
    ("aten::swapdims_", |call| in_place(call, transpose)),
    ("aten::sym_size", size),
    ("aten::t", t),
    ("aten::t_", |call| in_place(call, t)),
    ("aten::transpose", transpose),
    ("aten::transpose_", |call| in_place(call, transpose)),
    ("aten::unflatten", unflatten),
    ("aten::unfold", unfold),
    ("aten::unsqueeze", unsqueeze),
    ("aten::unsqueeze_", |call| in_place(call, unsqueeze)),
    ("aten::view", view),
    ("aten::view_as", view_as),
    ("aten::view_as_complex", view_as_complex),
    ("aten::view_as_real", view_as_real),
    ("prim::shape", size),
    ("aten::linalg_diagonal", linalg_diagonal),
    ("prims::transpose", transpose_kernel),
];

/// Changes the tensor itself to the result of a kernel.
fn in_place(call: &Call<'_>, kernel: fn(&Call<'_>) -> Answer) -> Answer {
    let x = operand(call)?;
    if let Some(made) = kernel(call)?.first().and_then(IValue::tensor) {
        become_view(&x, made)?;
    }
    one(x)
}

fn become_view(x: &Tensor, view: &Tensor) -> Result<(), Stop> {
    x.become_view(view).map_err(|error| Stop::unsupported(error.0))
}

fn metadata_in_place(call: &Call<'_>) -> Answer {
    Err(Stop::unsupported(format!("`{}` changes the type or layout of a tensor in place", call.kind())))
}

/// The first tensor, which most schemas name `self`, some `a`.
fn operand(call: &Call<'_>) -> Result<Tensor, Stop> {
    match call.schema.and_then(|schema| schema.formal("self")) {
        Some(_) => call.tensor("self"),
        None => call
            .args
            .first()
            .and_then(|value| value.tensor())
            .cloned()
            .ok_or_else(|| Stop::unsupported(format!("`{}` of a value that is not a tensor", call.kind()))),
    }
}

fn list_of(dims: &[i64]) -> IValue {
    IValue::list(dims.iter().copied())
}

// ---- shapes

/// A shape with its `-1` replaced by the inferred size.
pub(super) fn inferred(size: &[i64], elements: usize) -> Result<Dims, Stop> {
    let known: Vec<i64> = size.iter().map(|&n| if n < 0 { 1 } else { n }).collect();
    layout::checked(&known)?;
    Ok(layout::inferred(size, elements)?)
}

fn view(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    if let Some(dtype) = call.opt_dtype("dtype")? {
        if call.release() < Release(1, 11) && dtype.size() != x.dtype().size() {
            return Err(Stop::raised(
                "Viewing a tensor as a new dtype with a different number of bytes per element is not supported.",
            ));
        }
        return one(x.viewed_as(dtype)?);
    }
    one(viewed(&x, &inferred(&call.ints("size")?, x.numel())?)?)
}

fn viewed(x: &Tensor, shape: &[i64]) -> Result<Tensor, Stop> {
    x.view(shape).ok_or_else(|| {
        Stop::raised(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two \
             contiguous subspaces). Use .reshape(...) instead.",
        )
    })
}

fn view_as(call: &Call<'_>) -> Answer {
    let (x, other) = (call.tensor("self")?, call.tensor("other")?);
    let shape = inferred(other.shape(), x.numel())?;
    one(if call.kind().as_str() == "aten::reshape_as" { x.reshape(&shape) } else { viewed(&x, &shape)? })
}

fn reshape(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let wanted = call.opt_ints("shape")?.map_or_else(|| call.ints("size"), Ok)?;
    one(x.reshape(&inferred(&wanted, x.numel())?))
}

fn ravel(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    one(x.reshape(&[x.numel() as i64]))
}

fn flatten(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let (start, end) = (wrap(call.int("start_dim")?, x.rank())?, wrap(call.int("end_dim")?, x.rank())?);
    if start > end {
        return Err(Stop::raised("flatten() has invalid args: start_dim cannot come after end_dim"));
    }
    if x.rank() == 0 {
        return one(x.reshape(&[1]));
    }
    if start == end {
        return one(x);
    }
    let mut shape: Dims = x.shape()[..start].into();
    shape.push(x.shape()[start..=end].iter().product());
    shape.extend_from_slice(&x.shape()[end + 1..]);
    one(x.reshape(&shape))
}

fn unflatten(call: &Call<'_>) -> Answer {
    let (x, sizes) = (call.tensor("self")?, call.ints("sizes")?);
    let dim = wrap(call.int("dim")?, x.rank())?;
    if sizes.is_empty() || x.rank() == 0 {
        return Err(Stop::raised("unflatten: sizes must be non-empty"));
    }
    let parts = inferred(&sizes, x.size(dim) as usize).map_err(|_| {
        let size = x.size(dim);
        Stop::raised(format!("unflatten: Provided sizes {sizes:?} don't multiply up to the size of dim {dim} ({size}) in the input tensor"))
    })?;
    let mut shape: Dims = x.shape()[..dim].into();
    shape.extend_from_slice(&parts);
    shape.extend_from_slice(&x.shape()[dim + 1..]);
    one(viewed(&x, &shape)?)
}

fn squeeze(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let dims = match call.opt_ints("dim")? {
        Some(dims) => wrap_all(&dims, x.rank())?,
        None => (0..x.rank()).collect(),
    };
    one(x.squeeze(&dims))
}

fn unsqueeze(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    one(x.unsqueeze(wrap(call.int("dim")?, x.rank() + 1)?))
}

// ---- permutations

fn permute(call: &Call<'_>) -> Answer {
    let (x, dims) = (call.tensor("self")?, call.ints("dims")?);
    if dims.len() != x.rank() {
        return Err(Stop::raised(format!(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
            x.rank(),
            dims.len()
        )));
    }
    let order = wrap_all(&dims, x.rank()).map_err(|error| match error.1 {
        Fault::Repeated => Stop::raised("permute(): duplicate dims are not allowed."),
        _ => error.into(),
    })?;
    one(x.permute(&order))
}

fn transpose(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let names = match call.kind().as_str() {
        "aten::swapaxes" | "aten::swapaxes_" => ["axis0", "axis1"],
        _ => ["dim0", "dim1"],
    };
    let (a, b) = (wrap(call.int(names[0])?, x.rank())?, wrap(call.int(names[1])?, x.rank())?);
    one(x.transpose(a, b))
}

fn t(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    match x.rank() {
        0 | 1 => one(x.alias()),
        2 => one(x.transpose(0, 1)),
        n => Err(Stop::raised(format!("t() expects a tensor with <= 2 dimensions, but self is {n}D"))),
    }
}

fn numpy_t(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    one(x.permute(&(0..x.rank()).rev().collect::<Vec<_>>()))
}

fn swapped(call: &Call<'_>) -> Result<Tensor, Stop> {
    let x = call.tensor("self")?;
    match x.rank() {
        0 => Ok(x),
        1 => Err(Stop::raised(format!(
            "tensor.{} is only supported on matrices or batches of matrices. Got 1-D tensor.",
            call.kind().as_str().trim_start_matches("aten::")
        ))),
        n => Ok(x.transpose(n - 2, n - 1)),
    }
}

fn last_two_swapped(call: &Call<'_>) -> Answer {
    one(swapped(call)?)
}

fn adjoint(call: &Call<'_>) -> Answer {
    one(conjugated(call, &swapped(call)?))
}

fn movedim(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let (from, to) = (wrap_all(&call.ints("source")?, x.rank())?, wrap_all(&call.ints("destination")?, x.rank())?);
    if from.len() != to.len() {
        return Err(Stop::raised(format!(
            "movedim: Invalid source or destination dims: source ({} dims) should contain the same number of dims as destination ({} dims)",
            from.len(),
            to.len()
        )));
    }
    if x.rank() == 0 {
        return one(x);
    }
    let mut rest = (0..x.rank()).filter(|i| !from.contains(i));
    let pick = |i| match to.iter().position(|&place| place == i) {
        Some(k) => Some(from[k]),
        None => rest.next(),
    };
    one(x.permute(&(0..x.rank()).filter_map(pick).collect::<Vec<_>>()))
}

// ---- broadcasting

fn expand(call: &Call<'_>) -> Answer {
    one(expanded(&call.tensor("self")?, &call.ints("size")?)?)
}

fn expand_as(call: &Call<'_>) -> Answer {
    one(expanded(&call.tensor("self")?, call.tensor("other")?.shape())?)
}

/// The tensor broadcast to a size; `-1` keeps a dimension.
pub(super) fn expanded(x: &Tensor, size: &[i64]) -> Result<Tensor, Stop> {
    let Some(missing) = size.len().checked_sub(x.rank()) else {
        return Err(Stop::raised(format!(
            "expand(torch.{}Tensor{{{:?}}}, size={size:?}): the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor ({})",
            x.dtype().name(),
            x.shape(),
            size.len(),
            x.rank()
        )));
    };
    let mut shape = Dims::new();
    for (i, &n) in size.iter().enumerate() {
        let old = i.checked_sub(missing).map(|k| x.size(k));
        shape.push(match (n, old) {
            (-1, Some(old)) => old,
            (-1, None) => {
                return Err(Stop::raised(format!("The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}")));
            }
            (n, Some(old)) if old != n && old != 1 => {
                return Err(Stop::raised(format!(
                    "The expanded size of the tensor ({n}) must match the existing size ({old}) at non-singleton dimension {i}.  Target sizes: {size:?}.  Tensor sizes: {:?}",
                    x.shape()
                )));
            }
            _ => n,
        });
    }
    layout::checked(&shape)?;
    Ok(x.broadcast_to(&shape)?)
}

// ---- parts

/// One slice of a dimension.
fn select(call: &Call<'_>) -> Answer {
    one(selected(&call.tensor("self")?, call.int("dim")?, call.int("index")?)?)
}

/// One slice of a dimension, both numbers as in programs.
pub(super) fn selected(x: &Tensor, dim: i64, index: i64) -> Result<Tensor, Stop> {
    if x.rank() == 0 {
        return Err(index_error("select() cannot be applied to a 0-dim tensor."));
    }
    let dim = wrap(dim, x.rank())?;
    let at = wrapped(index, x.size(dim)).ok_or_else(|| {
        index_error(format!(
            "select(): index {index} out of range for tensor of size {:?} at dimension {dim}",
            x.shape()
        ))
    })?;
    Ok(x.select(dim, at))
}

fn select_copy(call: &Call<'_>) -> Answer {
    one(selected(&call.tensor("self")?, call.int("dim")?, call.int("index")?)?.copied())
}

/// Some slices of a dimension; bounds beyond the ends are clamped.
fn slice(call: &Call<'_>) -> Answer {
    one(sliced(call, &call.tensor("self")?)?)
}

fn slice_copy(call: &Call<'_>) -> Answer {
    one(sliced(call, &call.tensor("self")?)?.copied())
}

/// The slices given by `dim`, `start`, `end` and `step` of a call.
pub(super) fn sliced(call: &Call<'_>, x: &Tensor) -> Result<Tensor, Stop> {
    if x.rank() == 0 {
        return Err(Stop::raised("slice() cannot be applied to a 0-dim tensor."));
    }
    let dim = wrap(call.int("dim")?, x.rank())?;
    let (start, end, step) = (call.opt_int("start")?, call.opt_int("end")?, call.opt_int("step")?.unwrap_or(1));
    if step <= 0 {
        return Err(Stop::raised("slice step must be positive"));
    }
    let size = x.size(dim);
    let bound = |n: i64| if n < 0 { n.saturating_add(size).max(0) } else { n.min(size) };
    let start = bound(start.unwrap_or(0));
    let end = bound(end.unwrap_or(i64::MAX)).max(start);
    let len = ((end - start) as u64).div_ceil(step as u64) as i64;
    let step = if len > 1 || x.strides()[dim].checked_mul(step).is_some() { step } else { 1 };
    Ok(x.narrow(dim, start, len, step))
}

fn narrowed(call: &Call<'_>) -> Result<Tensor, Stop> {
    let (x, start, len) = (call.tensor("self")?, call.int("start")?, call.int("length")?);
    if x.rank() == 0 {
        return Err(Stop::raised("narrow() cannot be applied to a 0-dim tensor."));
    }
    let dim = wrap(call.int("dim")?, x.rank())?;
    let size = x.size(dim);
    if len < 0 {
        return Err(Stop::raised("narrow(): length must be non-negative."));
    }
    if !(-size..=size).contains(&start) {
        return Err(index_error(format!(
            "start out of range (expected to be in range of [{}, {size}], but got {start})",
            -size
        )));
    }
    let start = if start < 0 { start + size } else { start };
    if len > size - start {
        return Err(Stop::raised(format!("start ({start}) + length ({len}) exceeds dimension size ({size}).")));
    }
    Ok(x.narrow(dim, start, len, 1))
}

fn narrow(call: &Call<'_>) -> Answer {
    one(narrowed(call)?)
}

fn narrow_copy(call: &Call<'_>) -> Answer {
    one(narrowed(call)?.copied())
}

fn diagonal(call: &Call<'_>) -> Answer {
    one(diagonal_of(call, &call.tensor("self")?)?)
}

/// The diagonal given by `offset`, `dim1` and `dim2` of a call.
pub(super) fn diagonal_of(call: &Call<'_>, x: &Tensor) -> Result<Tensor, Stop> {
    let (dim1, dim2) = (wrap(call.int("dim1")?, x.rank())?, wrap(call.int("dim2")?, x.rank())?);
    if dim1 == dim2 {
        return Err(Stop::raised(format!(
            "diagonal dimensions cannot be identical {}, {}",
            call.int("dim1")?,
            call.int("dim2")?
        )));
    }
    along_diagonal(x, call.int("offset")?, dim1, dim2)
}

fn along_diagonal(x: &Tensor, offset: i64, dim1: usize, dim2: usize) -> Result<Tensor, Stop> {
    let (rows, columns) = (x.size(dim1), x.size(dim2));
    let (down, right) = (offset.min(0).saturating_neg(), offset.max(0));
    let len = rows.saturating_sub(down).min(columns.saturating_sub(right)).max(0);
    let others = || (0..x.rank()).filter(|&i| i != dim1 && i != dim2);
    let mut shape: Dims = others().map(|i| x.size(i)).collect();
    let mut strides: Dims = others().map(|i| x.strides()[i]).collect();
    shape.push(len);
    strides.push(x.strides()[dim1] + x.strides()[dim2]);
    let moved = if len > 0 { down * x.strides()[dim1] + right * x.strides()[dim2] } else { 0 };
    Ok(x.as_strided(&shape, &strides, x.offset() as i64 + moved)?)
}

fn diag(call: &Call<'_>) -> Answer {
    let (x, offset) = (call.tensor("self")?, call.int("diagonal")?);
    match x.rank() {
        1 => one(embedded(call, &x, offset, 0, 1)?),
        2 => one(along_diagonal(&x, offset, 0, 1)?.copied()),
        n => Err(Stop::raised(format!("diag(): Supports 1D or 2D tensors. Got {n}D"))),
    }
}

fn diag_embed(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let (dim1, dim2) = (wrap(call.int("dim1")?, x.rank() + 1)?, wrap(call.int("dim2")?, x.rank() + 1)?);
    if dim1 == dim2 || x.rank() == 0 {
        return Err(Stop::raised(format!("diagonal dimensions cannot be identical {dim1}, {dim2}")));
    }
    one(embedded(call, &x, call.int("offset")?, dim1, dim2)?)
}

/// Zeros with the last dimension of a tensor on a diagonal.
fn embedded(call: &Call<'_>, x: &Tensor, offset: i64, dim1: usize, dim2: usize) -> Result<Tensor, Stop> {
    let last = x.rank() - 1;
    let side = offset.checked_abs().and_then(|n| n.checked_add(x.size(last))).unwrap_or(i64::MAX);
    let mut shape: Dims = x.shape()[..last].into();
    for dim in [dim1.min(dim2), dim1.max(dim2)] {
        shape.insert(dim, side);
    }
    layout::checked(&shape)?;
    let made = placed(Tensor::zeros(x.dtype(), &shape, call.precision()), x);
    along_diagonal(&made, offset, dim1, dim2)?.copy_from(x)?;
    Ok(made)
}

fn as_strided(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    one(strided(&x, &call.ints("size")?, &call.ints("stride")?, call.opt_int("storage_offset")?)?)
}

/// A view with these sizes and strides.
pub(super) fn strided(x: &Tensor, size: &[i64], stride: &[i64], offset: Option<i64>) -> Result<Tensor, Stop> {
    layout::checked(size)?;
    let reach = |total: i64, (&n, &stride): (&i64, &i64)| total.checked_add((n - 1).max(0).checked_mul(stride)?);
    let first = x.storage().known().start as i64;
    let offset = offset.map_or(x.offset() as i64, |offset| offset.saturating_add(first));
    if size.iter().zip(stride).try_fold(offset, reach).is_none() {
        return Err(Stop::raised("setStorage: sizes and strides are out of bounds for the storage"));
    }
    Ok(x.as_strided(size, stride, offset)?)
}

fn unfold(call: &Call<'_>) -> Answer {
    let (x, size, step) = (call.tensor("self")?, call.int("size")?, call.int("step")?);
    let dim = wrap(call.int("dimension")?, x.rank())?;
    let most = x.size(dim);
    if size < 0 {
        return Err(Stop::raised(format!("size is {size} but must be >= 0")));
    }
    if size > most {
        return Err(Stop::raised(format!("maximum size for tensor at dimension {dim} is {most} but size is {size}")));
    }
    if step <= 0 {
        return Err(Stop::raised(format!("step is {step} but must be > 0")));
    }
    let (mut shape, mut strides): (Dims, Dims) = (x.shape().into(), x.strides().into());
    let stride = strides.get(dim).copied().unwrap_or(1);
    if x.rank() > 0 {
        shape[dim] = (most - size) / step + 1;
        strides[dim] = stride.checked_mul(step).unwrap_or(stride);
    }
    shape.push(size);
    strides.push(stride);
    one(strided(&x, &shape, &strides, None)?)
}

// ---- the tensor itself, and copies

fn alias(call: &Call<'_>) -> Answer {
    one(operand(call)?.alias())
}

fn copied(call: &Call<'_>) -> Answer {
    one(operand(call)?.copied())
}

fn detach(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?.alias();
    x.set_requires_grad(false);
    one(x)
}

fn detach_in_place(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    x.set_requires_grad(false);
    one(x)
}

/// Memory formats, `c10::MemoryFormat`: 0 contiguous, 1 preserved, 2 and 3 channels-last.
fn in_format(x: &Tensor, format: i64) -> Result<Tensor, Stop> {
    let order = format_order(x.rank(), format)?;
    let strides = layout::strides_in_order(x.shape(), &order);
    let made = placed(Tensor::in_fresh(Fresh::any(x.kept(), x.numel()), x.dtype(), (x.shape().into(), strides)), x);
    made.copy_from(x)?;
    Ok(made)
}

/// A result in the memory format that a call requests, if any.
pub(super) fn formatted(call: &Call<'_>, x: Tensor) -> Result<Tensor, Stop> {
    match call.opt_int("memory_format")?.filter(|&format| format != 1) {
        Some(format) if !has_format(&x, format) => in_format(&x, format),
        _ => Ok(x),
    }
}

/// The order of dimensions in memory, outermost first.
fn format_order(rank: usize, format: i64) -> Result<Vec<usize>, Stop> {
    match (format, rank) {
        (0, _) => Ok((0..rank).collect()),
        (2, 4) => Ok(vec![0, 2, 3, 1]),
        (3, 5) => Ok(vec![0, 2, 3, 4, 1]),
        (2, _) => Err(Stop::raised("required rank 4 tensor to use channels_last format")),
        (3, _) => Err(Stop::raised("required rank 5 tensor to use channels_last_3d format")),
        _ => Err(Stop::unsupported(format!("memory format {format}"))),
    }
}

fn has_format(x: &Tensor, format: i64) -> bool {
    let Ok(order) = format_order(x.rank(), format) else { return false };
    let view = x.permute(&order);
    view.is_contiguous()
}

fn contiguous(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    match call.opt_int("memory_format")?.unwrap_or(0) {
        1 => Err(Stop::raised("preserve memory format is unsupported by the contiguous operator")),
        format if has_format(&x, format) => one(x),
        format => one(in_format(&x, format)?),
    }
}

fn is_contiguous(call: &Call<'_>) -> Answer {
    one(has_format(&call.tensor("self")?, call.opt_int("memory_format")?.unwrap_or(0)))
}

fn clone(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let usual = if call.release() < Release(1, 5) { 0 } else { 1 };
    match call.opt_int("memory_format")?.unwrap_or(usual) {
        1 => one(x.converted(x.dtype(), call.precision())),
        format => one(in_format(&x, format)?),
    }
}

fn resize_in_place(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let size = match call.opt_ints("size")? {
        Some(size) => size,
        None => call.tensor("the_template")?.shape().to_vec(),
    };
    layout::checked(&size)?;
    let strides = layout::contiguous(&size);
    let within = x.offset() + layout::numel(&size) <= x.storage().known().end;
    match (x.shape() == size, within) {
        (true, _) => {}
        (_, true) => become_view(&x, &x.as_strided(&size, &strides, x.offset() as i64)?)?,
        _ => return Err(Stop::unsupported(format!("`{}` requires more memory than available", call.kind()))),
    }
    one(x)
}

// ---- complex numbers

fn conjugated(call: &Call<'_>, x: &Tensor) -> Tensor {
    match x.dtype().is_complex() {
        true => {
            let elements: Vec<C128> = x.read::<C128>().iter().map(C128::conj).collect();
            like(call, &elements, x.dtype(), x.shape(), x)
        }
        false => x.clone(),
    }
}

fn conj(call: &Call<'_>) -> Answer {
    one(conjugated(call, &call.tensor("self")?))
}

fn parts(call: &Call<'_>, x: &Tensor, part: fn(&C128) -> f64) -> Answer {
    let elements: Vec<f64> = x.read::<C128>().iter().map(part).collect();
    one(like(call, &elements, x.dtype().to_real(), x.shape(), x))
}

fn real(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    if x.dtype().is_complex() { parts(call, &x, |z| z.re) } else { one(x) }
}

fn imag(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    if x.dtype().is_complex() {
        return parts(call, &x, |z| z.im);
    }
    Err(Stop::raised("imag is not implemented for tensors with non-complex dtypes."))
}

fn view_as_real(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    if !x.dtype().is_complex() {
        return Err(Stop::raised("view_as_real is only supported for complex tensors"));
    }
    let elements: Vec<f64> = x.read::<C128>().iter().flat_map(|z| [z.re, z.im]).collect();
    let mut shape: Dims = x.shape().into();
    shape.push(2);
    let mut strides: Dims = x.strides().iter().map(|stride| 2 * stride).collect();
    strides.push(1);
    let made = like(call, &elements, x.dtype().to_real(), &shape, &x);
    one(if layout::is_dense(&shape, &strides) { made.laid(strides) } else { made })
}

fn view_as_complex(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    if !matches!(x.dtype(), DType::Float | DType::Double) {
        return Err(Stop::raised(format!(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {}",
            x.dtype().name()
        )));
    }
    let Some((&2, shape)) = x.shape().split_last() else {
        return Err(Stop::raised("Tensor must have a last dimension of size 2"));
    };
    let elements: Vec<C128> = x.read::<f64>().chunks_exact(2).map(|pair| C128::new(pair[0], pair[1])).collect();
    one(like(call, &elements, x.dtype().to_complex(), shape, &x))
}

// ---- queries

fn size(call: &Call<'_>) -> Answer {
    let x = operand(call)?;
    match call.schema.and_then(|schema| schema.formal("dim")) {
        Some(_) if x.rank() > 0 => one(x.size(wrap(call.int("dim")?, x.rank())?)),
        Some(_) => {
            Err(index_error(format!("Dimension specified as {} but tensor has no dimensions", call.int("dim")?)))
        }
        None => one(list_of(x.shape())),
    }
}

fn stride(call: &Call<'_>) -> Answer {
    let x = operand(call)?;
    match call.opt_int("dim")? {
        Some(dim) if x.rank() > 0 => one(x.strides()[wrap(dim, x.rank())?]),
        Some(dim) => Err(index_error(format!("Dimension specified as {dim} but tensor has no dimensions"))),
        None => one(list_of(x.strides())),
    }
}

fn dim(call: &Call<'_>) -> Answer {
    one(operand(call)?.rank())
}

fn numel(call: &Call<'_>) -> Answer {
    one(operand(call)?.numel())
}

fn storage_offset(call: &Call<'_>) -> Answer {
    let x = operand(call)?;
    one(x.offset() - x.storage().known().start)
}

fn is_same_size(call: &Call<'_>) -> Answer {
    one(call.tensor("self")?.shape() == call.tensor("other")?.shape())
}

fn shape_as_tensor(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    one(call.made(x.shape(), DType::Long, &[x.rank() as i64]))
}

fn len(call: &Call<'_>) -> Answer {
    match operand(call)?.shape().first() {
        Some(&n) => one(n),
        None => Err(Stop::raised_as("TypeError", "len() of a 0-d tensor")),
    }
}

/// `aten::linalg_diagonal`: the diagonals of matrices, by default of the last two dimensions, as
/// `aten::diagonal`, whose operand has another name.
fn linalg_diagonal(call: &Call<'_>) -> Answer {
    one(diagonal_of(call, &call.tensor("A")?)?)
}

/// `prims::transpose`: a view with its dimensions in another order. Dimensions count from the
/// front.
fn transpose_kernel(call: &Call<'_>) -> Answer {
    let (a, order) = (call.tensor("a")?, call.ints("permutation")?);
    if order.len() != a.rank() {
        return Err(Stop::raised(format!(
            "Attempting to permute a tensor of rank {}, but received a permutation of length {}!",
            a.rank(),
            order.len()
        )));
    }
    let place = |dim: &i64| usize::try_from(*dim).ok().filter(|&dim| dim < a.rank());
    let places: Vec<usize> = order.iter().filter_map(place).collect();
    let is_whole = (0..a.rank()).all(|dim| places.contains(&dim));
    match is_whole {
        true => one(a.permute(&places)),
        false => Err(Stop::raised(format!("Received an invalid permutation, {order:?}!"))),
    }
}
