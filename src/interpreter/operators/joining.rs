//! Joining and splitting tensors.

use super::elements::{by_kind, like, placed};
use super::views::expanded;
use crate::interpreter::Release;
use crate::interpreter::call::{Answer, Call, Outs, Row, one};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::ir::Attribute;
use crate::symbol::attr;
use crate::tensor::Tensor;
use crate::tensor::layout::{self, Dims, wrap};
use crate::tensor::promotion::Promotion;

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::atleast_1d", atleast),
    ("aten::atleast_2d", atleast),
    ("aten::atleast_3d", atleast),
    ("aten::block_diag", block_diag),
    ("aten::broadcast_tensors", broadcast_tensors),
    ("aten::cartesian_prod", cartesian_prod),
    ("aten::cat", cat),
    ("aten::chunk", chunk),
    ("aten::column_stack", column_stack),
    ("aten::combinations", combinations),
    ("aten::concat", cat),
    ("aten::concatenate", cat),
    ("aten::dsplit", split_evenly),
    ("aten::dstack", dstack),
    ("aten::hsplit", split_evenly),
    ("aten::hstack", hstack),
    ("aten::meshgrid", meshgrid),
    ("aten::row_stack", vstack),
    ("aten::split", split),
    ("aten::split_with_sizes", split),
    ("aten::stack", stack),
    ("aten::tensor_split", tensor_split),
    ("aten::unbind", unbind),
    ("aten::unsafe_chunk", chunk),
    ("aten::unsafe_split", split),
    ("aten::unsafe_split_with_sizes", split),
    ("aten::vsplit", split_evenly),
    ("aten::vstack", vstack),
    ("prim::ConstantChunk", constant_chunk),
    ("prim::FusedConcat", fused_concat),
];

fn list(tensors: Vec<Tensor>) -> Answer {
    one(IValue::list(tensors))
}

// ---- joining

/// The element type that all of them promote to.
fn common_type(parts: &[Tensor]) -> crate::tensor::DType {
    parts.iter().fold(Promotion::default(), Promotion::tensor).result()
}

/// Concatenates tensors in a dimension. One-dimensional ones without elements are ignored.
pub(super) fn joined(call: &Call<'_>, parts: &[Tensor], dim: i64) -> Result<Tensor, Stop> {
    let counts = |x: &&Tensor| x.shape() != [0];
    if let Some(i) = parts.iter().position(|x| x.rank() == 0) {
        return Err(Stop::raised(format!("zero-dimensional tensor (at position {i}) cannot be concatenated")));
    }
    let Some(first) = parts.iter().find(counts).or(parts.first()) else {
        return Err(Stop::raised("torch.cat(): expected a non-empty list of Tensors"));
    };
    let dim = wrap(dim, first.rank())?;
    let mut shape: Dims = first.shape().into();
    shape[dim] = 0;
    for (i, part) in parts.iter().enumerate().filter(|(_, part)| counts(part)) {
        check_joins(first, part, dim, i)?;
        shape[dim] += part.size(dim);
    }
    layout::checked(&shape)?;
    let made = placed(Tensor::zeros(common_type(parts), &shape, call.precision()), first);
    let made = made.laid(joined_strides(call, parts.iter().filter(counts), &shape));
    let mut start = 0;
    for part in parts.iter().filter(counts) {
        made.narrow(dim, start, part.size(dim), 1).copy_from(part)?;
        start += part.size(dim);
    }
    Ok(made)
}

/// Channels are last if they are in all parts.
fn joined_strides<'a>(call: &Call<'_>, mut parts: impl Iterator<Item = &'a Tensor>, shape: &[i64]) -> Dims {
    let order = |x: &Tensor| layout::suggested_order(x.shape(), x.strides());
    match parts.next().and_then(order).filter(|_| call.release() >= Release(1, 5)) {
        Some(of_first) if parts.all(|x| order(x) == Some(of_first)) => layout::strides_in_order(shape, of_first),
        _ => layout::contiguous(shape),
    }
}

fn check_joins(first: &Tensor, part: &Tensor, dim: usize, i: usize) -> Result<(), Stop> {
    if part.rank() != first.rank() {
        return Err(Stop::raised(format!(
            "Tensors must have same number of dimensions: got {} and {}",
            first.rank(),
            part.rank()
        )));
    }
    match (0..first.rank()).find(|&k| k != dim && part.size(k) != first.size(k)) {
        None => Ok(()),
        Some(k) => Err(Stop::raised(format!(
            "Sizes of tensors must match except in dimension {dim}. Expected size {} but got size {} for tensor number {i} in the list.",
            first.size(k),
            part.size(k)
        ))),
    }
}

fn cat(call: &Call<'_>) -> Answer {
    one(joined(call, &call.tensors("tensors")?, call.int("dim")?)?)
}

fn stacked(call: &Call<'_>, parts: &[Tensor], dim: i64) -> Result<Tensor, Stop> {
    let Some(first) = parts.first() else {
        return Err(Stop::raised("stack expects a non-empty TensorList"));
    };
    if let Some((i, other)) = parts.iter().enumerate().find(|(_, part)| part.shape() != first.shape()) {
        return Err(Stop::raised(format!(
            "stack expects each tensor to be equal size, but got {:?} at entry 0 and {:?} at entry {i}",
            first.shape(),
            other.shape()
        )));
    }
    let dim = wrap(dim, first.rank() + 1)?;
    let mut shape: Dims = first.shape().into();
    shape.insert(dim, parts.len() as i64);
    layout::checked(&shape)?;
    if dim == first.rank() {
        let thick: Vec<Tensor> = parts.iter().map(|part| part.unsqueeze(dim)).collect();
        return joined(call, &thick, dim as i64);
    }
    // Concatenated and then viewed with the new dimension, as in PyTorch: this determines the order
    // of dimensions in memory.
    Ok(joined(call, parts, dim as i64)?.reshape(&shape))
}

fn stack(call: &Call<'_>) -> Answer {
    one(stacked(call, &call.tensors("tensors")?, call.int("dim")?)?)
}

/// The tensor with at least this many dimensions.
fn raised_to(x: &Tensor, rank: usize) -> Tensor {
    match (rank, x.rank()) {
        (1.., 0) => raised_to(&x.unsqueeze(0), rank),
        (2.., 1) => raised_to(&x.unsqueeze(0), rank),
        (3.., 2) => x.unsqueeze(2),
        _ => x.clone(),
    }
}

fn atleast(call: &Call<'_>) -> Answer {
    let rank = match call.kind().as_str() {
        "aten::atleast_1d" => 1,
        "aten::atleast_2d" => 2,
        _ => 3,
    };
    match call.look("tensors") {
        Some(_) => list(call.tensors("tensors")?.iter().map(|x| raised_to(x, rank)).collect()),
        None => one(raised_to(&call.tensor("self")?, rank)),
    }
}

fn stacked_as(call: &Call<'_>, rank: usize, dim: i64) -> Answer {
    let parts: Vec<Tensor> = call.tensors("tensors")?.iter().map(|x| raised_to(x, rank)).collect();
    one(joined(call, &parts, dim)?)
}

fn hstack(call: &Call<'_>) -> Answer {
    let flat = call.tensors("tensors")?.first().is_none_or(|x| x.rank() <= 1);
    stacked_as(call, 1, if flat { 0 } else { 1 })
}

fn vstack(call: &Call<'_>) -> Answer {
    stacked_as(call, 2, 0)
}

fn dstack(call: &Call<'_>) -> Answer {
    stacked_as(call, 3, 2)
}

fn column_stack(call: &Call<'_>) -> Answer {
    let column = |x: &Tensor| if x.rank() <= 1 { x.reshape(&[x.numel() as i64, 1]) } else { x.clone() };
    let parts: Vec<Tensor> = call.tensors("tensors")?.iter().map(column).collect();
    one(joined(call, &parts, 1)?)
}

fn block_diag(call: &Call<'_>) -> Answer {
    let parts = call.tensors("tensors")?;
    if let Some((i, x)) = parts.iter().enumerate().find(|(_, x)| x.rank() > 2) {
        return Err(Stop::raised(format!(
            "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {} dimensions",
            x.rank()
        )));
    }
    let parts: Vec<Tensor> = parts.iter().map(|x| raised_to(x, 2)).collect();
    let total = |dim| parts.iter().map(|x| x.size(dim)).sum::<i64>();
    let shape = if parts.is_empty() { [1, 0] } else { [total(0), total(1)] };
    layout::checked(&shape)?;
    let made = Tensor::zeros(common_type(&parts), &shape, call.precision());
    let (mut row, mut column) = (0, 0);
    for part in &parts {
        made.narrow(0, row, part.size(0), 1).narrow(1, column, part.size(1), 1).copy_from(part)?;
        (row, column) = (row + part.size(0), column + part.size(1));
    }
    one(match parts.first() {
        Some(first) => placed(made, first),
        None => made,
    })
}

fn fused_concat(call: &Call<'_>) -> Answer {
    let parts: Vec<Tensor> = call.args.iter().filter_map(|value| value.tensor().cloned()).collect();
    one(joined(call, &parts, attribute(call, attr::DIM)?)?)
}

fn attribute(call: &Call<'_>, name: crate::symbol::Symbol) -> Result<i64, Stop> {
    match call.graph.attribute(call.node, name) {
        Some(Attribute::Int(n)) => Ok(*n),
        _ => Err(Stop::unsupported(format!("`{}` without its attribute `{}`", call.kind(), name.as_str()))),
    }
}

// ---- products of sets

fn broadcast_tensors(call: &Call<'_>) -> Answer {
    let parts = call.tensors("tensors")?;
    let shape = layout::broadcast_all(parts.iter().map(|x| x.shape()))?;
    list(parts.iter().map(|x| expanded(x, &shape)).collect::<Result<_, _>>()?)
}

fn meshgrid(call: &Call<'_>) -> Answer {
    let parts = call.tensors("tensors")?;
    if let Some(x) = parts.iter().find(|x| x.rank() > 1) {
        return Err(Stop::raised(format!(
            "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {:?}",
            x.shape()
        )));
    }
    let order = call.opt_str("indexing")?;
    if let Some(other) = order.as_ref().filter(|order| !["ij", "xy"].contains(&order.as_str())) {
        return Err(Stop::raised(format!(
            "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {other}"
        )));
    }
    let swap = order.is_some_and(|order| order == "xy") && parts.len() >= 2;
    let mut parts = parts;
    if swap {
        parts.swap(0, 1);
    }
    let mut grids = grid(&parts)?;
    if swap {
        grids.swap(0, 1);
    }
    list(grids)
}

fn grid(parts: &[Tensor]) -> Result<Vec<Tensor>, Stop> {
    let shape: Dims = parts.iter().map(|x| x.numel() as i64).collect();
    let along = |(i, x): (usize, &Tensor)| {
        let mut own = Dims::from_elem(1, parts.len());
        own[i] = shape[i];
        expanded(&x.reshape(&own), &shape)
    };
    parts.iter().enumerate().map(along).collect()
}

fn cartesian_prod(call: &Call<'_>) -> Answer {
    let parts = call.tensors("tensors")?;
    if let Some(x) = parts.iter().find(|x| x.rank() != 1) {
        return Err(Stop::raised(format!("Expect a 1D vector, but got shape {:?}", x.shape())));
    }
    if let [single] = &parts[..] {
        return one(single.clone());
    }
    let flat: Vec<Tensor> = grid(&parts)?.iter().map(|x| x.reshape(&[x.numel() as i64])).collect();
    one(stacked(call, &flat, 1)?)
}

fn combinations(call: &Call<'_>) -> Answer {
    let (x, r, again) = (call.tensor("self")?, call.int("r")?, call.bool("with_replacement")?);
    if x.rank() != 1 {
        return Err(Stop::raised(format!("Expect a 1D vector, but got shape {:?}", x.shape())));
    }
    if r < 0 {
        return Err(Stop::raised(format!("Expect a non-negative number, but got {r}")));
    }
    if r == 0 {
        return one(call.made::<i64>(&[], x.dtype(), &[0]));
    }
    let n = x.numel();
    layout::checked(&[n as i64, r])?;
    let mut rows: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..r {
        let next = |row: &Vec<usize>| row.last().map_or(0, |&last| if again { last } else { last + 1 });
        rows = rows.iter().flat_map(|row| (next(row)..n).map(|i| [&row[..], &[i]].concat())).collect();
        layout::checked(&[rows.len() as i64, r])?;
        if rows.is_empty() {
            break;
        }
    }
    let shape = [rows.len() as i64, r];
    by_kind!(x.dtype(), W => {
        let elements = x.read::<W>();
        let chosen: Vec<W> = rows.iter().flatten().map(|&i| elements[i]).collect();
        one(like(call, &chosen, x.dtype(), &shape, &x))
    })
}

// ---- splitting

/// Consecutive parts of a dimension with these sizes, which are in range.
fn pieces(x: &Tensor, dim: usize, sizes: &[i64]) -> Vec<Tensor> {
    let mut start = 0;
    let piece = |&len: &i64| {
        start += len;
        x.narrow(dim, start - len, len, 1)
    };
    sizes.iter().map(piece).collect()
}

/// Parts of one size; the last may be smaller.
fn even_pieces(x: &Tensor, dim: usize, size: i64) -> Vec<Tensor> {
    let total = x.size(dim);
    let count = if size == 0 { 1 } else { (total as u64).div_ceil(size as u64).max(1) as i64 };
    let sizes: Vec<i64> = (0..count).map(|i| size.min(total - i * size).max(0)).collect();
    pieces(x, dim, &sizes)
}

fn chunked(x: &Tensor, chunks: i64, dim: i64) -> Result<Vec<Tensor>, Stop> {
    if x.rank() == 0 {
        return Err(Stop::raised("chunk expects at least a 1-dimensional tensor"));
    }
    if chunks <= 0 {
        return Err(Stop::raised(format!("chunk expects `chunks` to be greater than 0, got: {chunks}")));
    }
    let dim = wrap(dim, x.rank())?;
    if x.size(dim) == 0 {
        layout::checked(&[chunks])?;
        return Ok(pieces(x, dim, &vec![0; chunks as usize]));
    }
    Ok(even_pieces(x, dim, (x.size(dim) as u64).div_ceil(chunks as u64) as i64))
}

fn chunk(call: &Call<'_>) -> Answer {
    list(chunked(&call.tensor("self")?, call.int("chunks")?, call.int("dim")?)?)
}

fn constant_chunk(call: &Call<'_>) -> Answer {
    let Some(x) = call.args.first().and_then(|value| value.tensor()) else {
        return Err(Stop::unsupported("`prim::ConstantChunk` of a value that is not a tensor"));
    };
    let chunks = attribute(call, attr::CHUNKS)?;
    let mut outs: Outs = chunked(x, chunks, attribute(call, attr::DIM)?)?.into_iter().map(IValue::from).collect();
    let made = outs.len();
    for output in call.graph.outputs(call.node).skip(made) {
        if call.graph.has_uses(output) {
            return Err(Stop::raised(format!(
                "Expected chunk to return at least {chunks} outputs, but got only {made}"
            )));
        }
        outs.push(IValue::None);
    }
    Ok(outs)
}

/// Parts of one size, or of given sizes.
fn split(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    if x.rank() == 0 {
        return Err(Stop::raised("split expects at least a 1-dimensional tensor"));
    }
    let dim = wrap(call.int("dim")?, x.rank())?;
    let name = if call.look("split_sizes").is_some() { "split_sizes" } else { "split_size" };
    let sizes = match call.look(name) {
        Some(IValue::Int(size)) => return list(split_by(&x, dim, *size)?),
        _ => call.ints(name)?,
    };
    if sizes.iter().any(|&n| n < 0) {
        return Err(Stop::raised(format!(
            "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes:?}"
        )));
    }
    if sizes.iter().try_fold(0i64, |sum, &n| sum.checked_add(n)) != Some(x.size(dim)) {
        return Err(Stop::raised(format!(
            "split_with_sizes expects split_sizes to sum exactly to {} (input tensor's size at dimension {dim}), but got split_sizes={sizes:?}",
            x.size(dim)
        )));
    }
    list(pieces(&x, dim, &sizes))
}

fn split_by(x: &Tensor, dim: usize, size: i64) -> Result<Vec<Tensor>, Stop> {
    if size < 0 {
        return Err(Stop::raised(format!("split expects split_size be non-negative, but got split_size={size}")));
    }
    if size == 0 && x.size(dim) != 0 {
        return Err(Stop::raised(format!(
            "split_size can only be 0 if dimension size is 0, but got dimension size of {}",
            x.size(dim)
        )));
    }
    Ok(even_pieces(x, dim, size))
}

fn tensor_split(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    if x.rank() == 0 {
        return Err(Stop::raised(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims",
        ));
    }
    let dim = wrap(call.int("dim")?, x.rank())?;
    if let Some(sections) = call.opt_int("sections")? {
        return list(sectioned(&x, dim, sections)?);
    }
    if let Some(indices) = call.opt_ints("indices")? {
        return list(cut_at(&x, dim, &indices));
    }
    let given = call.tensor("tensor_indices_or_sections")?;
    match given.rank() {
        0 => list(sectioned(&x, dim, given.item().int())?),
        _ => list(cut_at(&x, dim, &given.read::<i64>())),
    }
}

/// A number of parts, the first ones larger by one if the size is not divisible.
fn sectioned(x: &Tensor, dim: usize, sections: i64) -> Result<Vec<Tensor>, Stop> {
    if sections <= 0 {
        return Err(Stop::raised(format!("number of sections must be larger than 0, got {sections}")));
    }
    layout::checked(&[sections])?;
    let (small, larger) = (x.size(dim) / sections, x.size(dim) % sections);
    let sizes: Vec<i64> = (0..sections).map(|i| small + i64::from(i < larger)).collect();
    Ok(pieces(x, dim, &sizes))
}

/// Parts that end at these indices.
fn cut_at(x: &Tensor, dim: usize, indices: &[i64]) -> Vec<Tensor> {
    let size = x.size(dim);
    let bound = |n: i64| if n < 0 { n.saturating_add(size).max(0) } else { n.min(size) };
    let starts = std::iter::once(0).chain(indices.iter().map(|&n| bound(n)));
    let ends = indices.iter().map(|&n| bound(n)).chain([size]);
    starts.zip(ends).map(|(start, end)| x.narrow(dim, start, (end - start).max(0), 1)).collect()
}

fn split_evenly(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let (least, dim) = match call.kind().as_str() {
        "aten::hsplit" => (1, usize::from(x.rank() > 1)),
        "aten::vsplit" => (2, 0),
        _ => (3, 2),
    };
    let name = call.kind().as_str().trim_start_matches("aten::");
    if x.rank() < least {
        return Err(Stop::raised(format!(
            "torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {} dimensions!",
            x.rank()
        )));
    }
    let Some(sections) = call.opt_int("sections")? else {
        return list(cut_at(&x, dim, &call.ints("indices")?));
    };
    if sections <= 0 || x.size(dim) % sections != 0 {
        return Err(Stop::raised(format!(
            "torch.{name} attempted to split along dimension {dim}, but the size of the dimension {} is not divisible by the split_size {sections}!",
            x.size(dim)
        )));
    }
    list(sectioned(&x, dim, sections)?)
}

fn unbind(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    if x.rank() == 0 {
        return Err(Stop::raised("Dimension specified as 0 but tensor has no dimensions"));
    }
    let dim = wrap(call.int("dim")?, x.rank())?;
    list((0..x.size(dim)).map(|i| x.select(dim, i)).collect())
}
