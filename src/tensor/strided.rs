//! The tensor, its views, and access to elements.
//!
//! In-place shape changes are visible through all clones. `t_` stores its result in a cell that the
//! clones share, and each of them looks there when its sizes are read, so that no owner has to be
//! found.

use super::buffer::{Buffer, C128, Narrow, Precision, Typed, Wide, with_elements};
use super::dtype::{DType, Kind};
use super::layout::{self, Dims, Result, refuse};
use super::quantizer::Quantizer;
use super::spare_memory::Fresh;
use super::storage::{Device, Storage};
use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::rc::Rc;

/// One number outside of tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `float`
    Float(f64),
    /// `complex`
    Complex(C128),
}

impl Scalar {
    /// The kind of its arithmetic.
    pub fn kind(self) -> Kind {
        match self {
            Scalar::Bool(_) => Kind::Bool,
            Scalar::Int(_) => Kind::Int,
            Scalar::Float(_) => Kind::Float,
            Scalar::Complex(_) => Kind::Complex,
        }
    }

    /// As a number of a wide type.
    pub(crate) fn wide<W: Wide>(self) -> W {
        match self {
            Scalar::Bool(b) => W::load(b),
            Scalar::Int(n) => W::load(n),
            Scalar::Float(x) => W::load(x),
            Scalar::Complex(z) => W::load(z),
        }
    }

    /// As a floating point number.
    pub fn real(self) -> f64 {
        self.wide()
    }

    /// As an integer; floating point numbers are truncated.
    pub fn int(self) -> i64 {
        self.wide()
    }

    /// As a bool.
    pub fn truth(self) -> bool {
        self.wide::<C128>() != C128::default()
    }
}

/// A strided view of a storage. Clones are the same tensor for programs: a change of its shape in
/// place is visible through all of them. Views are separate tensors.
#[derive(Clone, Debug)]
pub struct Tensor {
    storage: Storage,
    dtype: DType,
    offset: usize,
    shape: Dims,
    strides: Dims,
    device: Device,
    requires_grad: Cell<bool>,
    /// Whether it counts as a plain number in promotion.
    is_number: bool,
    /// The mapping of its integers to numbers, if it is quantised.
    quantizer: Option<Rc<Quantizer>>,
    /// The tensor that it was changed to in place.
    became: Rc<OnceCell<Tensor>>,
}

/// A tensor for another thread, without its memory.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    dtype: DType,
    offset: usize,
    shape: Dims,
    strides: Dims,
    device: Device,
    requires_grad: bool,
    is_number: bool,
    quantizer: Option<Quantizer>,
}

impl Carried {
    /// The tensor over its memory.
    pub(crate) fn over(&self, storage: Storage) -> Tensor {
        Tensor {
            storage,
            dtype: self.dtype,
            offset: self.offset,
            shape: self.shape.clone(),
            strides: self.strides.clone(),
            device: self.device,
            requires_grad: Cell::new(self.requires_grad),
            is_number: self.is_number,
            quantizer: self.quantizer.clone().map(Rc::new),
            became: Rc::default(),
        }
    }
}

/// The maximal number of in-place changes of a tensor's shape: every access follows all of them.
const MOST_CHANGES: usize = 1000;

impl Tensor {
    // ---- making

    /// A contiguous tensor. The buffer has as many elements as the shape.
    pub fn new(buffer: Buffer, dtype: DType, shape: &[i64]) -> Tensor {
        debug_assert_eq!(buffer.len(), layout::numel(shape));
        Tensor::with_strides(buffer, dtype, shape, layout::contiguous(shape))
    }

    /// A tensor with these strides into the buffer.
    pub(crate) fn with_strides(buffer: Buffer, dtype: DType, shape: &[i64], strides: Dims) -> Tensor {
        let (storage, shape) = (Storage::new(buffer), shape.into());
        let (device, requires_grad, became) = (Device::cpu(), Cell::new(false), Rc::default());
        Tensor {
            storage,
            dtype,
            offset: 0,
            shape,
            strides,
            device,
            requires_grad,
            is_number: false,
            quantizer: None,
            became,
        }
    }

    /// A tensor with these strides in new memory.
    pub(crate) fn in_fresh(fresh: Fresh, dtype: DType, (shape, strides): (Dims, Dims)) -> Tensor {
        let lender = fresh.lender().cloned();
        let tensor = Tensor::placed(fresh.buffer, fresh.known, dtype, (shape, strides));
        lender.iter().for_each(|lender| tensor.storage.lent_by(lender));
        tensor
    }

    /// A tensor with these strides into the part of the buffer that programs see.
    pub(crate) fn placed(buffer: Buffer, known: Range<usize>, dtype: DType, (shape, strides): (Dims, Dims)) -> Tensor {
        let offset = known.start;
        let (device, requires_grad, became) = (Device::cpu(), Cell::new(false), Rc::default());
        let storage = Storage::placed(buffer, known);
        Tensor {
            storage,
            dtype,
            offset,
            shape,
            strides,
            device,
            requires_grad,
            is_number: false,
            quantizer: None,
            became,
        }
    }

    /// The same elements in memory of their own that begins at a cache line, if they are many:
    /// vectors of them then never cross a line.
    pub fn in_lines(&self) -> Tensor {
        let (mut buffer, known) = Buffer::placed(self.kept(), self.numel());
        let row = self.contiguous();
        let from = row.storage().read();
        with_elements!(&mut buffer, slots => fill(&from, row.offset(), &mut slots[known.clone()]));
        let copy = Tensor::placed(buffer, known, self.dtype(), (self.shape().into(), layout::contiguous(self.shape())));
        copy.set_requires_grad(self.requires_grad());
        copy.on(self.device())
    }

    /// Zeros. [`layout::checked`] determines whether a shape is valid.
    pub fn zeros(dtype: DType, shape: &[i64], precision: Precision) -> Tensor {
        let fresh = Fresh::zeros(precision.kept(dtype), layout::numel(shape));
        Tensor::in_fresh(fresh, dtype, (shape.into(), layout::contiguous(shape)))
    }

    /// One number in every element.
    pub fn full(value: Scalar, dtype: DType, shape: &[i64], precision: Precision) -> Tensor {
        let tensor = Tensor::zeros(dtype, shape, precision);
        tensor.fill(value);
        tensor
    }

    /// A zero-dimensional tensor.
    pub fn scalar(value: Scalar, dtype: DType, precision: Precision) -> Tensor {
        Tensor::full(value, dtype, &[], precision)
    }

    /// From numbers in logical order, rounded to the element type.
    pub fn of<W: Wide>(elements: &[W], dtype: DType, shape: &[i64], precision: Precision) -> Tensor {
        let mut fresh = Fresh::any(precision.kept(dtype), elements.len());
        with_elements!(&mut fresh.buffer, slots => store_all(elements, &mut slots[fresh.known.clone()]));
        Tensor::in_fresh(fresh, dtype, (shape.into(), layout::contiguous(shape)))
    }

    /// From elements of exactly one type, in logical order.
    pub fn from_elements<T: Typed>(elements: Vec<T>, shape: &[i64]) -> Tensor {
        Tensor::new(T::buffer(elements), T::DTYPE, shape)
    }

    /// The same view of another memory with the same layout.
    pub fn over(&self, storage: Storage) -> Tensor {
        debug_assert_eq!(storage.known().len(), self.storage().known().len());
        Tensor { storage, became: Rc::default(), ..self.now().clone() }
    }

    /// The tensor for another thread.
    pub(crate) fn carried(&self) -> Carried {
        let Tensor { dtype, offset, shape, strides, device, requires_grad, quantizer, .. } = self.now();
        Carried {
            dtype: *dtype,
            offset: *offset,
            shape: shape.clone(),
            strides: strides.clone(),
            device: *device,
            requires_grad: requires_grad.get(),
            is_number: self.is_number,
            quantizer: quantizer.as_deref().cloned(),
        }
    }

    /// The current tensor, after changes in place.
    fn now(&self) -> &Tensor {
        let mut now = self;
        while let Some(next) = now.became.get() {
            now = next;
        }
        now
    }

    /// The same elements as a separate tensor.
    pub(crate) fn alias(&self) -> Tensor {
        Tensor { became: Rc::default(), ..self.now().clone() }
    }

    /// Changes this tensor, and all clones of it, to another one. Views of it are unchanged.
    pub(crate) fn become_view(&self, view: &Tensor) -> Result<()> {
        let changes = std::iter::successors(Some(self), |tensor| tensor.became.get()).count();
        if changes > MOST_CHANGES {
            return refuse(format!("the shape of a tensor changes in place more than {MOST_CHANGES} times"));
        }
        let changed = self.now().became.set(view.alias());
        changed.or_else(|_| refuse("the shape of a tensor changes during another change of it"))
    }

    // ---- asking

    /// The element type that programs see.
    pub fn dtype(&self) -> DType {
        self.now().dtype
    }

    /// The element type in memory; see [`Precision`].
    pub fn kept(&self) -> DType {
        self.storage().read().dtype()
    }

    /// Sizes.
    pub fn shape(&self) -> &[i64] {
        &self.now().shape
    }

    /// Strides in elements.
    pub fn strides(&self) -> &[i64] {
        &self.now().strides
    }

    /// The offset of the first element in the storage.
    pub fn offset(&self) -> usize {
        self.now().offset
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.now().shape.len()
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        layout::numel(&self.now().shape)
    }

    /// The size of a dimension; a tensor without dimensions counts as having one of size 1.
    pub fn size(&self, dim: usize) -> i64 {
        self.now().shape.get(dim).copied().unwrap_or(1)
    }

    /// The memory.
    pub fn storage(&self) -> &Storage {
        &self.now().storage
    }

    /// The device that programs see.
    pub fn device(&self) -> Device {
        self.now().device
    }

    /// The same tensor as a traced Python number: it counts as one in promotion, in this tensor
    /// only.
    pub(crate) fn into_number(mut self) -> Tensor {
        self.is_number = self.shape.is_empty();
        self
    }

    /// Whether it counts as a plain number.
    pub fn is_number(&self) -> bool {
        self.is_number
    }

    /// The `requires_grad` that programs see.
    pub fn requires_grad(&self) -> bool {
        self.now().requires_grad.get()
    }

    /// Sets `requires_grad`.
    pub fn set_requires_grad(&self, yes: bool) {
        self.now().requires_grad.set(yes);
    }

    /// The same tensor with another device.
    pub(crate) fn on(self, device: Device) -> Tensor {
        let device = device.placed();
        if self.device() == device { self } else { Tensor { device, ..self.alias() } }
    }

    /// Whether the elements are contiguous.
    pub fn is_contiguous(&self) -> bool {
        layout::is_contiguous(self.shape(), self.strides())
    }

    /// Whether both share memory.
    pub fn shares_storage(&self, other: &Tensor) -> bool {
        self.storage().is(other.storage())
    }

    /// Whether both have the same elements of the same memory in the same order.
    pub fn is_same_view(&self, other: &Tensor) -> bool {
        self.shares_storage(other)
            && (self.offset(), self.shape(), self.strides()) == (other.offset(), other.shape(), other.strides())
    }

    /// The mapping of its integers to numbers, if it is quantised.
    pub(crate) fn quantizer(&self) -> Option<Rc<Quantizer>> {
        self.now().quantizer.clone()
    }

    /// The same integers as a quantised tensor. They are in memory in the element type of the
    /// integers.
    pub fn quantized(&self, dtype: DType, quantizer: impl Into<Rc<Quantizer>>) -> Tensor {
        debug_assert_eq!(self.kept(), dtype.memory());
        Tensor { dtype, quantizer: Some(quantizer.into()), ..self.alias() }
    }

    /// The integers of a quantised tensor, in the same memory.
    pub fn integers(&self) -> Tensor {
        Tensor { dtype: self.dtype().memory(), quantizer: None, ..self.alias() }
    }

    // ---- views

    /// Another view of the memory. Elements outside of it are refused.
    pub fn as_strided(&self, shape: &[i64], strides: &[i64], offset: i64) -> Result<Tensor> {
        if shape.len() != strides.len() {
            return refuse(format!(
                "mismatch in length of strides and shape: got {} and {}",
                strides.len(),
                shape.len()
            ));
        }
        let last: i64 = shape.iter().zip(strides).map(|(&n, &stride)| (n - 1).max(0) * stride).sum();
        let empty = shape.contains(&0);
        if offset < 0 || strides.iter().any(|&stride| stride < 0) {
            return refuse("as_strided: Negative strides are not supported at the moment");
        }
        if !empty && offset + last >= self.storage().known().end as i64 {
            return refuse(format!(
                "setStorage: sizes {shape:?}, strides {strides:?}, storage offset {offset} are out of bounds for storage of size {}",
                self.storage().read().len()
            ));
        }
        Ok(self.seen(shape.into(), strides.into(), offset as usize))
    }

    fn seen(&self, shape: Dims, strides: Dims, offset: usize) -> Tensor {
        Tensor { shape, strides, offset, became: Rc::default(), ..self.now().clone() }
    }

    /// Dimensions in another order.
    pub fn permute(&self, order: &[usize]) -> Tensor {
        let pick = |dims: &[i64]| order.iter().map(|&i| dims[i]).collect();
        self.seen(pick(self.shape()), pick(self.strides()), self.offset())
    }

    /// Two dimensions swapped.
    pub fn transpose(&self, a: usize, b: usize) -> Tensor {
        let mut order: Vec<usize> = (0..self.rank()).collect();
        if self.rank() > 0 {
            order.swap(a, b);
        }
        self.permute(&order)
    }

    /// One dimension moved to the end.
    pub(crate) fn with_last(&self, dim: usize) -> Tensor {
        let mut order: Vec<usize> = (0..self.rank()).filter(|&i| i != dim).collect();
        order.extend((self.rank() > 0).then_some(dim));
        self.permute(&order)
    }

    /// The inverse of [`Tensor::with_last`].
    pub(crate) fn with_last_at(&self, dim: usize) -> Tensor {
        let mut order: Vec<usize> = (0..self.rank().saturating_sub(1)).collect();
        if self.rank() > 0 {
            order.insert(dim, self.rank() - 1);
        }
        self.permute(&order)
    }

    /// One slice of a dimension, which is removed. `index` is in range.
    pub(crate) fn select(&self, dim: usize, index: i64) -> Tensor {
        let (mut shape, mut strides) = (self.now().shape.clone(), self.now().strides.clone());
        shape.remove(dim);
        let offset = self.offset() as i64 + index * strides.remove(dim);
        self.seen(shape, strides, offset as usize)
    }

    /// Some slices of a dimension, which is kept. `start` and `len` are in range.
    pub fn narrow(&self, dim: usize, start: i64, len: i64, step: i64) -> Tensor {
        let (mut shape, mut strides) = (self.now().shape.clone(), self.now().strides.clone());
        let offset = self.offset() as i64 + start * strides[dim];
        shape[dim] = len;
        strides[dim] *= step;
        self.seen(shape, strides, offset as usize)
    }

    /// Inserts a dimension of size 1.
    pub(crate) fn unsqueeze(&self, dim: usize) -> Tensor {
        let (mut shape, mut strides) = (self.now().shape.clone(), self.now().strides.clone());
        let stride = if dim < self.rank() { shape[dim] * strides[dim] } else { 1 };
        shape.insert(dim, 1);
        strides.insert(dim, stride);
        self.seen(shape, strides, self.offset())
    }

    /// Removes those of these dimensions that have size 1.
    pub(crate) fn squeeze(&self, dims: &[usize]) -> Tensor {
        let stays = |i: &usize| !(dims.contains(i) && self.shape()[*i] == 1);
        let pick = |all: &[i64]| (0..self.rank()).filter(stays).map(|i| all[i]).collect();
        self.seen(pick(self.shape()), pick(self.strides()), self.offset())
    }

    /// Broadcasts to a larger shape.
    pub fn broadcast_to(&self, shape: &[i64]) -> Result<Tensor> {
        if layout::broadcast(self.shape(), shape)?[..] != *shape {
            return refuse(format!(
                "output with shape {shape:?} doesn't match the broadcast shape {:?}",
                &layout::broadcast(self.shape(), shape)?[..]
            ));
        }
        Ok(self.seen(shape.into(), layout::expanded(self.shape(), self.strides(), shape), self.offset()))
    }

    /// The same memory in another shape; `None` if that requires a copy.
    pub(crate) fn view(&self, shape: &[i64]) -> Option<Tensor> {
        let strides = layout::viewed(self.shape(), self.strides(), shape)?;
        Some(self.seen(shape.into(), strides, self.offset()))
    }

    /// Another shape, copied if necessary.
    pub(crate) fn reshape(&self, shape: &[i64]) -> Tensor {
        self.view(shape).unwrap_or_else(|| {
            let copy = self.copied();
            copy.seen(shape.into(), layout::contiguous(shape), 0)
        })
    }

    /// The same bytes as elements of another type, of the same size or another: the last dimension
    /// then grows or shrinks. If the memory has other numbers than programs see, there are no such
    /// bytes, and the result is a copy.
    pub(crate) fn viewed_as(&self, dtype: DType) -> Result<Tensor> {
        let (from, to) = (self.dtype(), dtype);
        let (old, new) = (from.size() as i64, to.size() as i64);
        let (mut shape, mut strides) = (self.now().shape.clone(), self.now().strides.clone());
        let mut offset = self.offset() as i64 - self.storage().known().start as i64;
        let what = || format!("to view {} as {} (different element sizes)", from.name(), to.name());
        if old != new {
            let Some(last) = shape.len().checked_sub(1) else {
                return refuse(format!("self.dim() cannot be 0 {}", what()));
            };
            if strides[last] != 1 {
                return refuse(format!("self.stride(-1) must be 1 {}, but got {}", what(), strides[last]));
            }
            let others = (0..last).map(|dim| (format!("self.stride({dim})"), strides[dim]));
            let sizes = [("self.size(-1)".to_owned(), shape[last]), ("self.storage_offset()".to_owned(), offset)];
            let ratio = new / old;
            if let Some((name, n)) = sizes.into_iter().chain(others).find(|(_, n)| new > old && n % ratio != 0) {
                return refuse(format!("{name} must be divisible by {ratio} {}, but got {n}", what()));
            }
            let scaled = |n: i64| if new > old { n / ratio } else { n * (old / new) };
            shape[last] = scaled(shape[last]);
            strides[..last].iter_mut().for_each(|stride| *stride = scaled(*stride));
            offset = scaled(offset);
        }
        if self.kept().size() == from.size() {
            let storage = self.storage().read_as(to.memory());
            return Ok(Tensor { storage, dtype, quantizer: None, ..self.seen(shape, strides, offset as usize) });
        }
        let row = self.converted(from, Precision::Typed).copied();
        let storage = row.storage().read_as(to.memory());
        let typed = Tensor { storage, dtype, ..row.seen(shape.clone(), layout::contiguous(&shape), 0) };
        Ok(typed.converted(dtype, Precision::Double))
    }

    // ---- elements

    /// The first element.
    pub fn item(&self) -> Scalar {
        let buffer = self.storage().read();
        match self.dtype().arithmetic() {
            Some(Kind::Bool) => Scalar::Bool(first::<i64>(&buffer, self.offset()) != 0),
            Some(Kind::Int) | None => Scalar::Int(first(&buffer, self.offset())),
            Some(Kind::Float) => Scalar::Float(first(&buffer, self.offset())),
            Some(Kind::Complex) => Scalar::Complex(first(&buffer, self.offset())),
        }
    }

    /// Writes one number to every element.
    pub fn fill(&self, value: Scalar) {
        match value {
            Scalar::Bool(_) | Scalar::Int(_) => self.write(&vec![value.int(); self.numel()]),
            Scalar::Float(x) => self.write(&vec![x; self.numel()]),
            Scalar::Complex(z) => self.write(&vec![z; self.numel()]),
        }
    }

    /// Writes the elements of another tensor, broadcast to this shape and converted. The two may
    /// overlap.
    pub(crate) fn copy_from(&self, source: &Tensor) -> Result<()> {
        let source = source.broadcast_to(self.shape())?;
        if self.copy_alike(&source) {
            return Ok(());
        }
        match source.dtype().arithmetic() {
            Some(Kind::Float) => self.write(&source.read::<f64>()),
            Some(Kind::Complex) => self.write(&source.read::<C128>()),
            _ => self.write(&source.read::<i64>()),
        }
        Ok(())
    }

    /// A copy with the same strides, gaps included; contiguous if elements share an address.
    pub(crate) fn copied_with_strides(&self) -> Result<Tensor> {
        let contiguous = self.strides() == &layout::contiguous(self.shape())[..];
        if contiguous || self.numel() == 0 || !layout::is_apart(self.shape(), self.strides()) {
            return Ok(self.copied());
        }
        let reach: i64 = self.shape().iter().zip(self.strides()).map(|(&n, &stride)| (n - 1) * stride).sum();
        let fresh = Fresh::zeros(self.kept(), reach as usize + 1);
        let memory = Tensor::in_fresh(fresh, self.dtype(), (Dims::from_slice(&[reach + 1]), Dims::from_slice(&[1])));
        let copy = memory.on(self.device()).as_strided(self.shape(), self.strides(), 0)?;
        copy.copy_from(self)?;
        Ok(copy)
    }

    /// The tensor itself if it is contiguous, else a contiguous copy.
    pub fn contiguous(&self) -> Tensor {
        if self.is_contiguous() { self.clone() } else { self.copied() }
    }

    /// The tensor itself if it has these strides, else a copy with them.
    pub(crate) fn laid(&self, strides: Dims) -> Tensor {
        if self.strides() == &strides[..] || self.numel() == 0 {
            return self.clone();
        }
        let fresh = Fresh::any(self.kept(), self.numel());
        let mut copy = Tensor::in_fresh(fresh, self.dtype(), (self.shape().into(), strides));
        copy.device = self.device();
        copy.copy_from(self).expect("the shapes are the same");
        copy
    }

    /// A copy with elements of another type. The order of dimensions in memory is kept if there are
    /// no gaps.
    pub fn converted(&self, dtype: DType, precision: Precision) -> Tensor {
        let strides = layout::kept_strides(self.shape(), self.strides());
        let fresh = Fresh::any(precision.kept(dtype), self.numel());
        let mut copy = Tensor::in_fresh(fresh, dtype, (self.shape().into(), strides));
        copy.device = self.device();
        copy.copy_from(self).expect("the shapes are the same");
        copy
    }
}

fn fill<T: Typed>(from: &Buffer, first: usize, slots: &mut [T]) {
    if let Some(elements) = T::slice(from) {
        slots.copy_from_slice(&elements[first..first + slots.len()]);
    }
}

fn store_all<W: Wide, T: Narrow>(elements: &[W], slots: &mut [T]) {
    for (slot, &element) in slots.iter_mut().zip(elements) {
        *slot = element.store();
    }
}

fn first<W: Wide>(buffer: &Buffer, offset: usize) -> W {
    with_elements!(buffer, elements => W::load(elements[offset]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_change_together_and_views_do_not() {
        let tensor = Tensor::from_elements(vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
        let (clone, row, alias) = (tensor.clone(), tensor.select(0, 1), tensor.alias());
        tensor.become_view(&tensor.transpose(0, 1)).expect("it may");
        assert_eq!((clone.shape(), row.shape(), alias.shape()), (&[3, 2][..], &[3][..], &[2, 3][..]));
        assert_eq!(clone.read::<f64>(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        row.fill(Scalar::Int(0));
        clone.clone().become_view(&clone.view(&[3, 2, 1]).expect("a view")).expect("it may");
        assert_eq!((tensor.shape(), tensor.rank()), (&[3, 2, 1][..], 3));
        assert_eq!(tensor.read::<f64>(), [1.0, 0.0, 2.0, 0.0, 3.0, 0.0]);
    }

    #[test]
    fn a_tensor_does_not_change_for_ever() {
        let tensor = Tensor::from_elements(vec![1f32], &[1]);
        let changes = (0..10_000).take_while(|_| tensor.become_view(&tensor.alias()).is_ok()).count();
        assert_eq!(changes, MOST_CHANGES);
    }
}
