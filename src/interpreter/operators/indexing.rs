//! Elements read and written by index, by mask, by condition; indices of elements.

use super::elements::{by_kind, like, placed};
use super::factories::check_fits_alone;
use super::picking::{
    Number, changed, check_fits, coordinates, index_error, picked, place, refuse_shared_elements, wrapped,
    write_elements,
};
use super::pointwise::c_name;
use super::scattering::{dimensioned, gathered};
use super::views::{diagonal_of, expanded, selected, sliced, strided};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::environment::Release;
use crate::interpreter::ivalue::IValue;
use crate::interpreter::library::refuse_overlap;
use crate::interpreter::stop::Stop;
use crate::tensor::gemm::Ring;
use crate::tensor::layout::{self, Dims};
use crate::tensor::promotion::{Promotion, of_scalar};
use crate::tensor::{DType, Kind, Scalar, Tensor};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::_index_put_impl_", index_put_in_place),
    ("aten::_s_where", where_),
    ("aten::_unsafe_index", index),
    ("aten::_unsafe_index_put", index_put),
    ("aten::argwhere", nonzero),
    ("aten::as_strided_scatter", view_scatter),
    ("aten::bucketize", bucketize),
    ("aten::copy", copy),
    ("aten::copy_", copy_in_place),
    ("aten::diagonal_scatter", view_scatter),
    ("aten::fill", fill),
    ("aten::fill_", fill_in_place),
    ("aten::fill_diagonal_", fill_diagonal),
    ("aten::index", index),
    ("aten::index_put", index_put),
    ("aten::index_put_", index_put_in_place),
    ("aten::masked_fill", masked_fill),
    ("aten::masked_scatter", masked_scatter),
    ("aten::masked_select", masked_select),
    ("aten::nonzero", nonzero),
    ("aten::nonzero_numpy", nonzero_numpy),
    ("aten::nonzero_static", nonzero_static),
    ("aten::one_hot", one_hot),
    ("aten::searchsorted", searchsorted),
    ("aten::select_scatter", view_scatter),
    ("aten::slice_scatter", view_scatter),
    ("aten::select_backward", view_backward),
    ("aten::slice_backward", view_backward),
    ("aten::diagonal_backward", view_backward),
    ("aten::tril_indices", triangle_indices),
    ("aten::triu_indices", triangle_indices),
    ("aten::where", where_),
    ("aten::zero", zero),
    ("aten::zero_", zero_in_place),
];

fn short(call: &Call<'_>) -> &'static str {
    call.kind().as_str().trim_start_matches("aten::")
}

// ---- Python's indexing

/// The elements of an index: the shape of the result, and the offset of each element.
struct Chosen {
    shape: Dims,
    places: Vec<usize>,
}

/// Masks converted to the coordinates of their true elements; other indices unchanged.
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

/// The coordinates of the true elements, one tensor per dimension.
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
    let is_true: Vec<bool> = by_kind!(mask.dtype(), W => {
        mask.read::<W>().iter().map(|&x| x != W::default()).collect()
    });
    let mut next = is_true.iter();
    let at = coordinates(mask.shape(), |at| next.next().is_some_and(|&x| x).then(|| Dims::from_slice(at)));
    at.into_iter().flatten().collect()
}

/// The position of the dimensions of the index among those of the result: first, unless the indexed
/// dimensions are adjacent.
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

/// The numbers of one index, broadcast to the common shape, counted from the start.
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
fn index(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let indices = call.opt_tensors("indices")?;
    let mask = indices.iter().flatten().find(|index| matches!(index.dtype(), DType::Bool | DType::Byte));
    if let Some(mask) = mask.filter(|_| call.kind().as_str() == "aten::_unsafe_index") {
        return Err(Stop::raised(format!("_unsafe_index found unexpected index type {}", mask.dtype().name())));
    }
    let Chosen { shape, places } = chosen(&x, indices)?;
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
    by_kind!(x.dtype(), W => {
        let changes = places.into_iter().zip(values.read::<W>());
        write_elements(x, changes, |old, value| if accumulate { old.plus(value) } else { value });
    });
    Ok(())
}

/// Values broadcast to the result of an index; leading dimensions of size 1 are dropped.
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

// ---- masks

fn check_mask(call: &Call<'_>, mask: &Tensor) -> Result<(), Stop> {
    match mask.dtype() {
        DType::Bool => Ok(()),
        // `uint8` masks were deprecated in 1.2 and refused from 2.1 on.
        DType::Byte if call.release() < Release(2, 1) => Ok(()),
        other => Err(Stop::raised(format!(
            "{}_ only supports boolean masks, but got mask with dtype {}",
            short(call),
            c_name(other)
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
    // Non-zero is true, without truncation first.
    let value = if x.dtype() == DType::Bool { Scalar::Int(i64::from(value.real() != 0.0)) } else { value };
    let shape = layout::broadcast(x.shape(), mask.shape())?;
    let mask = expanded(&mask, &shape)?.read::<i64>();
    let x = expanded(&x, &shape)?;
    by_kind!(x.dtype(), W => {
        let mut elements = x.read::<W>();
        for (element, _) in elements.iter_mut().zip(&mask).filter(|(_, mask)| **mask != 0) {
            *element = value.wide();
        }
        one(like(call, &elements, x.dtype(), &shape, &x))
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
    by_kind!(x.dtype(), W => {
        let mut elements = x.read::<W>();
        let slots = elements.iter_mut().zip(&mask).filter(|(_, mask)| **mask != 0);
        slots.zip(source.read::<W>()).for_each(|((slot, _), value)| *slot = value);
        one(like(call, &elements, x.dtype(), &shape, &x))
    })
}

// ---- selection

/// A tensor or a number of a call, and its contribution to promotion. A number keeps its precision
/// until the result type is known.
fn choice(call: &Call<'_>, name: &str, seen: Promotion) -> Result<(Tensor, Promotion), Stop> {
    match call.look(name).and_then(IValue::scalar) {
        Some(number) => {
            let dtype = of_scalar(number, DType::Double);
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
        (Some(x), Some(y)) => {
            let own = |number| of_scalar(number, call.env.default_dtype());
            crate::tensor::promotion::join(own(x), own(y))
        }
        _ => seen.result(),
    };
    for number in ["self", "other"].into_iter().filter_map(|name| call.look(name).and_then(IValue::scalar)) {
        check_fits_alone(number, dtype)?;
    }
    let shape = layout::broadcast_all([condition.shape(), x.shape(), y.shape()])?;
    layout::checked(&shape)?;
    let operands = [&condition, &x, &y].map(|tensor| (tensor.shape(), tensor.strides()));
    let strides = layout::traversal_strides(&shape, &operands);
    let condition = condition.broadcast_to(&shape)?;
    let taken = condition.read::<i64>();
    by_kind!(dtype, W => {
        let read = |x: &Tensor| -> Result<Vec<W>, Stop> {
            let x = if x.dtype() == dtype { x.clone() } else { x.converted(dtype, call.precision()) };
            Ok(x.broadcast_to(&shape)?.read::<W>())
        };
        let pairs = read(&x)?.into_iter().zip(read(&y)?);
        let chosen: Vec<W> = taken.iter().zip(pairs).map(|(&c, (x, y))| if c != 0 { x } else { y }).collect();
        let device = [&x, &y].into_iter().find(|x| x.rank() > 0).unwrap_or(&condition);
        one(like(call, &chosen, dtype, &shape, device).laid(strides))
    })
}

fn nonzero(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let found = true_places(&x);
    let flat: Vec<i64> = found.iter().flatten().copied().collect();
    one(like(call, &flat, DType::Long, &[found.len() as i64, x.rank() as i64], &x))
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
    one(like(call, &flat, DType::Long, &[size, x.rank() as i64], &x))
}

// ---- writes

fn copy_in_place(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let source = if call.look("src").is_some() { call.tensor("src")? } else { call.tensor("other")? };
    let source = expanded_over(&source, &x)?;
    refuse_overlap(call)?;
    if !source.is_same_view(&x) {
        refuse_shared_elements(&x)?;
    }
    x.copy_from(&source)?;
    one(x)
}

fn copy(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let copy = x.converted(x.dtype(), call.precision());
    copy.copy_from(&expanded_over(&call.tensor("src")?, &copy)?)?;
    one(copy)
}

fn expanded_over(source: &Tensor, x: &Tensor) -> Result<Tensor, Stop> {
    Ok(source.broadcast_to(x.shape())?)
}

/// The value of a fill.
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
    by_kind!(x.dtype(), W => {
        let there = on_diagonal.into_iter().enumerate().filter(|(_, on)| *on);
        write_elements(&x, there.map(|(i, _)| (i, value.wide::<W>())), |_, value| value);
    });
    one(x)
}

/// The gradient at the elements of a view, and zeros elsewhere.
fn view_backward(call: &Call<'_>) -> Answer {
    let (grad, sizes) = (call.tensor("grad_output")?, call.ints("input_sizes")?);
    layout::checked(&sizes)?;
    let whole = placed(Tensor::zeros(grad.dtype(), &sizes, call.precision()), &grad);
    let there = match short(call) {
        "select_backward" => selected(&whole, call.int("dim")?, call.int("index")?)?,
        "diagonal_backward" => diagonal_of(call, &whole)?,
        _ => sliced(call, &whole)?,
    };
    if there.shape() != grad.shape() {
        let (shape, wanted) = (grad.shape(), there.shape());
        return Err(Stop::raised(format!("a gradient of shape {shape:?} for a view of shape {wanted:?}")));
    }
    there.copy_from(&grad)?;
    one(whole)
}

/// A copy of a tensor in which a view is overwritten.
fn view_scatter(call: &Call<'_>) -> Answer {
    let (copy, source) = (call.tensor("self")?.copied_with_strides()?, call.tensor("src")?);
    let view = match short(call) {
        "select_scatter" => selected(&copy, call.int("dim")?, call.int("index")?)?,
        "slice_scatter" => sliced(call, &copy)?,
        "diagonal_scatter" => diagonal_of(call, &copy)?,
        _ => strided(&copy, &call.ints("size")?, &call.ints("stride")?, call.opt_int("storage_offset")?)?,
    };
    if view.shape() != source.shape() {
        return Err(Stop::raised(format!(
            "expected src to have a size equal to the slice of self. src size = {:?}, slice size = {:?}",
            source.shape(),
            view.shape()
        )));
    }
    view.copy_from(&source)?;
    one(copy)
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
    one(like(call, &elements, DType::Long, &shape, &x))
}

/// The number of elements of a sorted row before a number.
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
    one(like(call, &bins, bins_dtype(call)?, x.shape(), &x))
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
    one(like(call, &bins, bins_dtype(call)?, x.shape(), &x))
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
