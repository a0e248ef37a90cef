//! Shapes and strides.

use super::storage;
use smallvec::SmallVec;
use std::cell::Cell;
use std::fmt;

/// Sizes or strides in elements, one per dimension.
pub type Dims = SmallVec<[i64; 6]>;

/// The reason why an operation on tensors is refused, in PyTorch's words if it has any; and what is
/// wrong, as far as callers distinguish it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorError(pub String, pub Fault);

/// An error of an operation on tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no such dimension: an `IndexError` in PyTorch.
    OutOfRange,
    /// A dimension is named twice.
    Repeated,
    /// Anything else.
    Other,
}

impl fmt::Display for TensorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TensorError {}

/// A result of an operation on tensors.
pub type Result<T> = std::result::Result<T, TensorError>;

/// Refuses with a message.
pub(crate) fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(TensorError(message.into(), Fault::Other))
}

/// The number of elements of a shape.
pub(crate) fn numel(shape: &[i64]) -> usize {
    shape.iter().fold(1, |n: i64, &size| n.saturating_mul(size)).max(0) as usize
}

/// The maximal number of elements of a tensor, 1 GiB of doubles: larger ones are refused before
/// memory is allocated. Operators work on several copies of their operands in doubles.
pub(crate) const MAX_ELEMENTS: i64 = 1 << 27;

/// The maximal size of all tensors together, in bytes.
pub(crate) const MAX_BYTES: usize = 4 << 30;

thread_local! {
    static LIMIT: Cell<i64> = const { Cell::new(MAX_ELEMENTS) };
}

/// Runs `f` with a smaller bound on the elements of a tensor, for work that must stay small
/// whatever the graph.
pub fn with_most_elements<R>(most: i64, f: impl FnOnce() -> R) -> R {
    let outer = LIMIT.replace(most.min(LIMIT.get()));
    let result = f();
    LIMIT.set(outer);
    result
}

/// Checks that a tensor of a shape can be made.
pub fn checked(shape: &[i64]) -> Result<usize> {
    if let Some(negative) = shape.iter().find(|&&n| n < 0) {
        return refuse(format!("Trying to create tensor with negative dimension {negative}: {shape:?}"));
    }
    // Strides are products too, and those of a tensor without elements count its other sizes.
    let total = shape.iter().try_fold(1i64, |total, &n| total.checked_mul(n.max(1)));
    match total.map(|n| if shape.contains(&0) { 0 } else { n }).filter(|&n| n <= LIMIT.get()) {
        Some(n) if n as usize * size_of::<f64>() + storage::bytes() <= MAX_BYTES => Ok(n as usize),
        Some(_) => refuse(format!(
            "with a tensor of shape {shape:?} all tensors together would exceed the interpreter's limit of {} GiB",
            MAX_BYTES >> 30
        )),
        None => refuse(format!("a tensor of shape {shape:?} exceeds the interpreter's limit on elements")),
    }
}

/// The strides of a contiguous tensor. Those of a shape that no tensor has are at most the largest
/// integer.
pub(crate) fn contiguous(shape: &[i64]) -> Dims {
    let mut strides: Dims = SmallVec::from_elem(1, shape.len());
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(shape[i].max(1));
    }
    strides
}

/// Whether strides are contiguous; dimensions of size 1 do not matter, and tensors without elements
/// are contiguous.
pub(crate) fn is_contiguous(shape: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1;
    if shape.contains(&0) {
        return true;
    }
    for (&size, &stride) in shape.iter().zip(strides).rev() {
        if size != 1 {
            if stride != expected {
                return false;
            }
            expected *= size;
        }
    }
    true
}

/// Strides and sizes of the dimensions larger than 1, in the order of memory.
fn from_innermost(shape: &[i64], strides: &[i64]) -> Vec<(i64, i64)> {
    let walked = shape.iter().zip(strides).filter(|(size, _)| **size != 1);
    let mut dims: Vec<(i64, i64)> = walked.map(|(&size, &stride)| (stride, size)).collect();
    dims.sort_unstable();
    dims
}

/// Whether the elements fill memory without gaps and without overlap, in any order of dimensions.
pub(crate) fn is_dense(shape: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1;
    from_innermost(shape, strides).into_iter().all(|(stride, size)| {
        let found = stride == expected;
        expected *= size;
        found
    })
}

/// Whether no two elements share an address; false also for interleaved dimensions, which are not
/// analysed.
pub(crate) fn is_apart(shape: &[i64], strides: &[i64]) -> bool {
    let mut reach = 1;
    from_innermost(shape, strides).into_iter().all(|(stride, size)| {
        let is_apart = stride >= reach;
        reach += stride * (size - 1);
        is_apart
    })
}

/// The dimension with a number; negative numbers count from the end. A tensor without dimensions
/// counts as having one.
pub(crate) fn wrap(dim: i64, rank: usize) -> Result<usize> {
    let n = rank.max(1) as i64;
    if (-n..n).contains(&dim) {
        return Ok(dim.rem_euclid(n) as usize);
    }
    let message = format!("Dimension out of range (expected to be in range of [{}, {}], but got {dim})", -n, n - 1);
    Err(TensorError(message, Fault::OutOfRange))
}

/// Several dimensions, which must be distinct.
pub(crate) fn wrap_all(dims: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut wrapped = Vec::new();
    for &dim in dims {
        let dim = wrap(dim, rank)?;
        if wrapped.contains(&dim) {
            let message = format!("dim {dim} appears multiple times in the list of dims");
            return Err(TensorError(message, Fault::Repeated));
        }
        wrapped.push(dim);
    }
    Ok(wrapped)
}

/// The shape that both are broadcast to.
pub fn broadcast(a: &[i64], b: &[i64]) -> Result<Dims> {
    let rank = a.len().max(b.len());
    let at = |shape: &[i64], i: usize| (i + shape.len()).checked_sub(rank).map_or(1, |i| shape[i]);
    let mut shape = Dims::new();
    for i in 0..rank {
        shape.push(match (at(a, i), at(b, i)) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            (x, y) => {
                return refuse(format!(
                    "The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {i}"
                ));
            }
        });
    }
    Ok(shape)
}

/// The shape that all are broadcast to.
pub(crate) fn broadcast_all<'a>(shapes: impl IntoIterator<Item = &'a [i64]>) -> Result<Dims> {
    shapes.into_iter().try_fold(Dims::new(), |all, shape| broadcast(&all, shape))
}

/// The strides of a tensor broadcast to a larger shape: 0 for broadcast dimensions.
pub(crate) fn expanded(shape: &[i64], strides: &[i64], to: &[i64]) -> Dims {
    let missing = to.len() - shape.len();
    let stride = |i: usize| match i.checked_sub(missing) {
        Some(k) if shape[k] == to[i] => strides[k],
        _ => 0,
    };
    (0..to.len()).map(stride).collect()
}

/// The order in which PyTorch's `TensorIterator` traverses operands, outermost dimension first, and
/// therefore the order of dimensions in the memory of its result: that of the strides of the first
/// operand that distinguishes two dimensions.
pub(crate) fn iteration_order(shape: &[i64], strides: &[Dims]) -> Vec<usize> {
    // An insertion sort from the innermost dimension, as in PyTorch: comparisons may be undecided,
    // so that no other sort gives the same order.
    let mut order: Vec<usize> = (0..shape.len()).rev().collect();
    let compare = |inner: usize, outer: usize| {
        for strides in strides {
            let (a, b) = (strides[inner], strides[outer]);
            if a == 0 || b == 0 {
                continue;
            }
            if a != b {
                return if a < b { -1 } else { 1 };
            }
            if shape[inner] > shape[outer] {
                return 1;
            }
        }
        0
    };
    for i in 1..order.len() {
        let mut moved = i;
        for at in (0..i).rev() {
            match compare(order[at], order[moved]) {
                1 => {
                    order.swap(at, moved);
                    moved = at;
                }
                -1 => break,
                _ => {}
            }
        }
    }
    order.reverse();
    order
}

/// The contiguous strides for dimensions in this order in memory, outermost first.
pub(crate) fn strides_in_order(shape: &[i64], order: &[usize]) -> Dims {
    let mut strides: Dims = SmallVec::from_elem(1, shape.len());
    let mut next = 1;
    for &dim in order.iter().rev() {
        strides[dim] = next;
        next *= shape[dim].max(1);
    }
    strides
}

/// The strides of PyTorch's elementwise result of operands, each with its own shape and strides. If
/// all have one shape and are contiguous, channels-last, or have equal strides without gaps,
/// PyTorch takes a fast path; the difference shows in the strides of dimensions of size 1.
pub(crate) fn traversal_strides(shape: &[i64], operands: &[(&[i64], &[i64])]) -> Dims {
    let all = |has: &dyn Fn(&[i64]) -> bool| operands.iter().all(|(own, strides)| *own == shape && has(strides));
    if all(&|strides| is_contiguous(shape, strides)) {
        return contiguous(shape);
    }
    if let Some(order) = channels_last(4, shape)
        && all(&|strides| is_in_order(shape, strides, order))
    {
        return strides_in_order(shape, order);
    }
    if let Some((_, first)) = operands.first()
        && is_dense(shape, first)
        && all(&|strides| strides == *first)
    {
        return (*first).into();
    }
    let expanded_strides: Vec<Dims> = operands.iter().map(|(own, strides)| expanded(own, strides, shape)).collect();
    strides_in_order(shape, &iteration_order(shape, &expanded_strides))
}

/// The channels-last order of the dimensions of images, or of volumes if `most` is 5.
fn channels_last(most: usize, shape: &[i64]) -> Option<&'static [usize]> {
    const ORDERS: [&[usize]; 2] = [&[0, 2, 3, 1], &[0, 2, 3, 4, 1]];
    ORDERS.into_iter().find(|order| order.len() == shape.len() && shape.len() <= most)
}

fn is_in_order(shape: &[i64], strides: &[i64], order: &[usize]) -> bool {
    let pick = |dims: &[i64]| -> Dims { order.iter().map(|&i| dims[i]).collect() };
    is_contiguous(&pick(shape), &pick(strides))
}

/// The channels-last order of dimensions that strides suggest; `None` if they are contiguous or in
/// any other order. Gaps do not matter. If sizes of 1 leave the order open, their strides, which
/// have no other meaning, decide.
pub fn suggested_order(shape: &[i64], strides: &[i64]) -> Option<&'static [usize]> {
    let order = channels_last(5, shape)?;
    if strides[1] == 0 || shape.contains(&0) {
        return None;
    }
    let mut least = 0;
    for &dim in order.iter().rev() {
        let is_ambiguous = dim == 0 && least == strides[1];
        if strides[dim] < least || is_ambiguous {
            return None;
        }
        least = strides[dim] * shape[dim];
    }
    Some(order)
}

/// The order of dimensions in the result of a batch norm; `None` if it is contiguous. Sizes of 1
/// leave less open than in `suggested_order`: elements that are contiguous in the usual order
/// stay so, and then those that are in channels-last order.
pub fn order_of_norm(shape: &[i64], strides: &[i64]) -> Option<&'static [usize]> {
    if is_contiguous(shape, strides) {
        return None;
    }
    let order = channels_last(5, shape)?;
    if is_in_order(shape, strides, order) { Some(order) } else { suggested_order(shape, strides) }
}

/// The strides of a copy that keeps the order of dimensions in memory: unchanged if there are no
/// gaps.
pub(crate) fn kept_strides(shape: &[i64], strides: &[i64]) -> Dims {
    match is_dense(shape, strides) {
        true => strides.into(),
        false => strides_in_order(shape, &iteration_order(shape, &[strides.into()])),
    }
}

/// The strides of a view of the same memory with another shape, if one exists.
pub(crate) fn viewed(shape: &[i64], strides: &[i64], to: &[i64]) -> Option<Dims> {
    if numel(shape) == 0 {
        return Some(if shape == to { strides.into() } else { contiguous(to) });
    }
    let mut new: Dims = SmallVec::from_elem(0, to.len());
    let mut open = to.len();
    let (mut base, mut elements, mut taken) = (*strides.last().unwrap_or(&1), 1, 1);
    for i in (0..shape.len()).rev() {
        elements *= shape[i];
        let ends = i == 0 || (shape[i - 1] != 1 && strides[i - 1] != elements * base);
        if !ends {
            continue;
        }
        while open > 0 && (taken < elements || to[open - 1] == 1) {
            open -= 1;
            new[open] = taken * base;
            taken *= to[open];
        }
        if taken != elements {
            return None;
        }
        if i > 0 {
            (base, elements, taken) = (strides[i - 1], 1, 1);
        }
    }
    while shape.is_empty() && open > 0 {
        open -= 1;
        new[open] = 1;
    }
    (open == 0).then_some(new)
}

/// A shape with its `-1` replaced by the inferred size.
pub(crate) fn inferred(shape: &[i64], elements: usize) -> Result<Dims> {
    let wrong = || refuse(format!("shape '{shape:?}' is invalid for input of size {elements}"));
    if let Some(bad) = shape.iter().find(|&&n| n < -1) {
        return refuse(format!("invalid shape dimension {bad}"));
    }
    if shape.iter().filter(|&&n| n == -1).count() > 1 {
        return refuse("only one dimension can be inferred");
    }
    let known: i64 = shape.iter().filter(|&&n| n != -1).product();
    let elements = elements as i64;
    match shape.contains(&-1) {
        false if known == elements => Ok(shape.into()),
        true if known != 0 && elements % known == 0 => {
            Ok(shape.iter().map(|&n| if n == -1 { elements / known } else { n }).collect())
        }
        true if known == 0 && elements == 0 => refuse(format!(
            "cannot reshape tensor of 0 elements into shape {shape:?} because the unspecified dimension size -1 can be any value and is ambiguous"
        )),
        _ => wrong(),
    }
}
