//! Traversal of tensors in blocks of wide numbers.
//!
//! An elementwise operator is a loop over a block of a few hundred numbers. `map` reads blocks of
//! all operands, broadcast to a common shape, passes them to the loop, and stores the first of them
//! as the result.

use super::buffer::{Buffer, Narrow, Precision, Wide, with_elements};
use super::dtype::DType;
use super::layout::{self, Dims, Result};
use super::spare_memory::Fresh;
use super::strided::Tensor;
use smallvec::SmallVec;

/// The number of elements in a block: a few blocks fit the first level of cache.
pub(crate) const BLOCK: usize = 512;

/// One dimension of a traversal.
#[derive(Clone, Copy, Debug)]
struct Axis {
    size: usize,
    stride: isize,
    at: usize,
}

/// Reads or locates elements in logical order, any number at a time.
#[derive(Clone, Debug)]
pub struct Reader {
    /// Outermost first. Adjacent dimensions are merged if one loop traverses both.
    axes: SmallVec<[Axis; 6]>,
    offset: isize,
}

impl Reader {
    /// A reader at the first element.
    pub(crate) fn new(tensor: &Tensor) -> Reader {
        Reader::over(tensor.shape(), tensor.strides(), tensor.offset())
    }

    /// A reader at the first of the elements with these strides.
    pub(crate) fn over(shape: &[i64], strides: &[i64], offset: usize) -> Reader {
        let mut axes: SmallVec<[Axis; 6]> = SmallVec::new();
        for (&size, &stride) in shape.iter().zip(strides) {
            let (size, stride) = (size.max(0) as usize, stride as isize);
            match axes.last_mut() {
                _ if size == 1 => {}
                Some(outer) if outer.stride == stride * size as isize => {
                    (outer.size, outer.stride) = (outer.size * size, stride);
                }
                _ => axes.push(Axis { size, stride, at: 0 }),
            }
        }
        if axes.is_empty() {
            axes.push(Axis { size: 1, stride: 1, at: 0 });
        }
        Reader { axes, offset: offset as isize }
    }

    /// Fills a slice with the next elements.
    pub(crate) fn fill<W: Wide>(&mut self, buffer: &Buffer, block: &mut [W]) {
        with_elements!(buffer, elements => self.runs(block.len(), |at, from, stride, n| {
            load_run(&mut block[at..at + n], elements, from, stride);
        }));
    }

    /// Stores a slice at the next elements.
    fn spill<W: Wide>(&mut self, buffer: &mut Buffer, block: &[W]) {
        with_elements!(buffer, elements => self.runs(block.len(), |at, from, stride, n| {
            for (k, number) in block[at..at + n].iter().enumerate() {
                elements[(from + k as isize * stride) as usize] = number.store();
            }
        }));
    }

    /// Calls `f(done, offset, stride, n)` for runs of elements, `n` in all, and advances past them.
    fn runs(&mut self, n: usize, mut f: impl FnMut(usize, isize, isize, usize)) {
        let mut done = 0;
        let inner = self.axes.len() - 1;
        while done < n {
            let axis = &mut self.axes[inner];
            let run = (axis.size - axis.at).min(n - done);
            f(done, self.offset, axis.stride, run);
            done += run;
            axis.at += run;
            self.offset += run as isize * axis.stride;
            self.carry();
        }
    }

    /// Advances outer dimensions when inner ones reach their end.
    fn carry(&mut self) {
        for i in (0..self.axes.len()).rev() {
            let axis = &mut self.axes[i];
            if axis.at < axis.size {
                return;
            }
            self.offset -= axis.size as isize * axis.stride;
            axis.at = 0;
            if i > 0 {
                self.axes[i - 1].at += 1;
                self.offset += self.axes[i - 1].stride;
            }
        }
    }
}

#[inline]
fn load_run<W: Wide, T: Narrow>(block: &mut [W], elements: &[T], from: isize, stride: isize) {
    let start = from as usize;
    match stride {
        1 => {
            for (number, &element) in block.iter_mut().zip(&elements[start..]) {
                *number = W::load(element);
            }
        }
        0 => block.fill(W::load(elements[start])),
        _ => {
            for (k, number) in block.iter_mut().enumerate() {
                *number = W::load(elements[(from + k as isize * stride) as usize]);
            }
        }
    }
}

impl Tensor {
    /// All elements in logical order.
    pub fn read<W: Wide>(&self) -> Vec<W> {
        let mut elements = vec![W::default(); self.numel()];
        Reader::new(self).fill(&self.storage().read(), &mut elements);
        elements
    }

    /// Writes all elements in logical order.
    pub fn write<W: Wide>(&self, elements: &[W]) {
        write_blocks(self, elements);
    }

    /// Writes the elements of a tensor of the same sizes in another memory, if they have the same
    /// type. Returns whether they have.
    pub(super) fn copy_alike(&self, source: &Tensor) -> bool {
        let are_alike = (self.dtype(), self.kept()) == (source.dtype(), source.kept());
        if !are_alike || self.shares_storage(source) {
            return false;
        }
        copy_runs(&source.storage().read(), source, &mut self.storage().write(), self);
        true
    }

    /// A contiguous copy.
    pub fn copied(&self) -> Tensor {
        let fresh = {
            let source = self.storage().read();
            let n = self.numel();
            let mut copy = Fresh::any(source.dtype(), n);
            match self.is_contiguous() {
                // The offset of a tensor without elements may be past the end.
                _ if n == 0 => {}
                true => copy_row(&source, self.offset(), &mut copy),
                false => gather(&source, self, &mut copy),
            }
            copy
        };
        let laid = (self.shape().into(), layout::contiguous(self.shape()));
        Tensor::in_fresh(fresh, self.dtype(), laid).on(self.device())
    }
}

fn copy_row(source: &Buffer, offset: usize, copy: &mut Fresh) {
    let known = copy.known.clone();
    macro_rules! rows {
        ($($name:ident)*) => {
            match (source, &mut copy.buffer) {
                $((Buffer::$name(from), Buffer::$name(to)) => {
                    let n = known.len();
                    to[known].copy_from_slice(&from[offset..offset + n]);
                },)*
                _ => unreachable!("both were made with one element type"),
            }
        };
    }
    rows!(Bool Byte Char Short Int Long Half BFloat16 Float Double ComplexFloat ComplexDouble);
}

/// Writes numbers over all elements of a tensor, in logical order.
fn write_blocks<W: Wide>(tensor: &Tensor, elements: &[W]) {
    let mut storage = tensor.storage().write();
    Reader::new(tensor).spill(&mut storage, elements);
}

/// Copies the elements of a tensor, contiguously, to new memory of the same type.
fn gather(source: &Buffer, tensor: &Tensor, copy: &mut Fresh) {
    let known = copy.known.clone();
    macro_rules! rows {
        ($($name:ident)*) => {
            match (source, &mut copy.buffer) {
                $((Buffer::$name(from), Buffer::$name(to)) => {
                    let to = &mut to[known];
                    Reader::new(tensor).runs(to.len(), |at, start, stride, n| {
                        for k in 0..n {
                            to[at + k] = from[(start + k as isize * stride) as usize];
                        }
                    });
                })*
                _ => unreachable!("both have one element type"),
            }
        };
    }
    rows!(Bool Byte Char Short Int Long Half BFloat16 Float Double ComplexFloat ComplexDouble);
}

/// Copies elements from one traversal to another, by runs of both.
fn copy_runs(from: &Buffer, source: &Tensor, to: &mut Buffer, target: &Tensor) {
    let mut there = Reader::new(target);
    macro_rules! runs {
        ($($name:ident)*) => {
            match (from, to) {
                $((Buffer::$name(from), Buffer::$name(to)) => {
                    Reader::new(source).runs(source.numel(), |_, at, stride, n| {
                        there.runs(n, |done, slot, step, n| {
                            copy_run((from, at + done as isize * stride, stride), (to, slot, step), n);
                        });
                    });
                })*
                _ => unreachable!("both have one element type"),
            }
        };
    }
    runs!(Bool Byte Char Short Int Long Half BFloat16 Float Double ComplexFloat ComplexDouble);
}

fn copy_run<T: Copy>((from, at, stride): (&[T], isize, isize), (to, slot, step): (&mut [T], isize, isize), n: usize) {
    if stride == 1 && step == 1 {
        return to[slot as usize..][..n].copy_from_slice(&from[at as usize..][..n]);
    }
    for k in 0..n as isize {
        to[(slot + k * step) as usize] = from[(at + k * stride) as usize];
    }
}

/// The types of one elementwise computation.
#[derive(Clone, Copy, Debug)]
pub struct Types {
    /// The type that operands are converted to first.
    pub common: DType,
    /// The type of the result.
    pub out: DType,
    /// The precision of the stored elements.
    pub precision: Precision,
}

impl Types {
    /// Operands and result of one type.
    pub(crate) fn same(dtype: DType, precision: Precision) -> Types {
        Types { common: dtype, out: dtype, precision }
    }
}

/// Computes elementwise. `f` gets a block of each operand, of equal length, and leaves the results
/// in the first.
///
/// The result has no gaps in memory, and its dimensions are in PyTorch's order.
pub(crate) fn map<W: Wide>(inputs: &[&Tensor], types: Types, f: &mut dyn FnMut(&mut [Vec<W>])) -> Result<Tensor> {
    let shape = layout::broadcast_all(inputs.iter().map(|tensor| tensor.shape()))?;
    let strides: SmallVec<[Dims; 4]> =
        inputs.iter().map(|tensor| layout::expanded(tensor.shape(), tensor.strides(), &shape)).collect();
    let order = layout::iteration_order(&shape, &strides);
    let ordered = |dims: &Dims| -> Dims { order.iter().map(|&i| dims[i]).collect() };
    let walked = ordered(&shape);
    let total = layout::checked(&shape)?;
    let mut readers: SmallVec<[Reader; 4]> = (inputs.iter().zip(&strides))
        .map(|(tensor, strides)| Reader::over(&walked, &ordered(strides), tensor.offset()))
        .collect();
    let kept = types.precision.kept(types.common);
    let mut blocks: Vec<Vec<W>> = inputs.iter().map(|_| vec![W::default(); total.min(BLOCK)]).collect();
    let mut out = Fresh::any(types.precision.kept(types.out), total);
    let mut done = 0;
    while done < total {
        let n = (total - done).min(BLOCK);
        for ((tensor, reader), block) in inputs.iter().zip(&mut readers).zip(&mut blocks) {
            block.truncate(n);
            let buffer = tensor.storage().read();
            reader.fill(&buffer, block);
            if buffer.dtype() != kept {
                round(block, kept);
            }
        }
        f(&mut blocks);
        let first = out.known.start + done;
        with_elements!(&mut out.buffer, slots => store_run(&blocks[0], &mut slots[first..first + n]));
        done += n;
    }
    let device = inputs.iter().find(|tensor| tensor.rank() > 0).or(inputs.first()).map(|tensor| tensor.device());
    // PyTorch's fast paths differ from the order of the traversal in dimensions of size 1 only, so
    // that the addresses of elements agree.
    let operands: SmallVec<[_; 4]> = inputs.iter().map(|tensor| (tensor.shape(), tensor.strides())).collect();
    let strides = layout::traversal_strides(&shape, &operands);
    Ok(Tensor::in_fresh(out, types.out, (shape, strides)).on(device.unwrap_or_default()))
}

fn round<W: Wide>(block: &mut [W], dtype: DType) {
    for number in block {
        *number = number.through(dtype);
    }
}

fn store_run<W: Wide, T: Narrow>(block: &[W], slots: &mut [T]) {
    for (slot, number) in slots.iter_mut().zip(block) {
        *slot = number.store();
    }
}

/// Computes elementwise with one operand.
pub(crate) fn map1<W: Wide>(x: &Tensor, types: Types, f: impl Fn(W) -> W) -> Result<Tensor> {
    map(&[x], types, &mut |blocks: &mut [Vec<W>]| {
        for x in &mut blocks[0] {
            *x = f(*x);
        }
    })
}

/// Computes elementwise with two operands.
pub(crate) fn map2<W: Wide>(x: &Tensor, y: &Tensor, types: Types, f: impl Fn(W, W) -> W) -> Result<Tensor> {
    map(&[x, y], types, &mut |blocks: &mut [Vec<W>]| {
        let (first, rest) = blocks.split_at_mut(1);
        for (x, y) in first[0].iter_mut().zip(&rest[0]) {
            *x = f(*x, *y);
        }
    })
}

/// Computes elementwise with three operands.
pub(crate) fn map3<W: Wide>(operands: [&Tensor; 3], types: Types, f: impl Fn(W, W, W) -> W) -> Result<Tensor> {
    map(&operands, types, &mut |blocks: &mut [Vec<W>]| {
        let (first, rest) = blocks.split_at_mut(1);
        for ((x, y), z) in first[0].iter_mut().zip(&rest[0]).zip(&rest[1]) {
            *x = f(*x, *y, *z);
        }
    })
}

/// The rows of a tensor over some dimensions, as operands of a reduction.
#[derive(Debug)]
pub struct Rows<W> {
    /// All elements, row after row.
    pub elements: Vec<W>,
    /// The number of elements of one row.
    pub len: usize,
    /// The sizes of the other dimensions.
    pub outer: Dims,
    /// The number of rows.
    pub count: usize,
}

impl<W: Wide> Rows<W> {
    /// Reads a tensor with `dims` innermost.
    pub(crate) fn along(tensor: &Tensor, dims: &[usize]) -> Rows<W> {
        let outer: Vec<usize> = (0..tensor.rank()).filter(|i| !dims.contains(i)).collect();
        let order: Vec<usize> = outer.iter().chain(dims).copied().filter(|&i| i < tensor.rank()).collect();
        let len = dims.iter().map(|&i| tensor.size(i) as usize).product();
        let outer: Dims = outer.iter().map(|&i| tensor.size(i)).collect();
        let count = layout::numel(&outer);
        Rows { elements: tensor.permute(&order).read(), len, outer, count }
    }

    /// The rows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[W]> {
        (0..self.count).map(|i| &self.elements[i * self.len..(i + 1) * self.len])
    }

    /// The rows, writable.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut [W]> {
        let (len, count) = (self.len, self.count);
        let mut rest = &mut self.elements[..];
        (0..count).map(move |_| {
            let (row, others) = std::mem::take(&mut rest).split_at_mut(len);
            rest = others;
            row
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::buffer::Typed;
    use super::*;

    fn numbers(n: i64) -> Tensor {
        Tensor::from_elements((0..n).map(|i| i as f32).collect(), &[n])
    }

    #[test]
    fn elements_of_one_type_are_copied_as_they_are() {
        let (source, target) = (numbers(600), Tensor::zeros(DType::Float, &[5, 4, 3], Precision::Typed));
        let views = [
            source.as_strided(&[5, 4, 3], &[12, 3, 1], 7),
            source.as_strided(&[5, 4, 3], &[1, 5, 20], 0),
            source.as_strided(&[5, 4, 3], &[0, 120, 2], 3),
            source.as_strided(&[4, 1], &[9, 1], 2),
        ];
        for view in views.map(|view| view.expect("it is inside")) {
            for to in [target.clone(), target.permute(&[0, 2, 1]).permute(&[0, 2, 1])] {
                to.copy_from(&view).expect("it fits");
                let wanted = view.broadcast_to(&[5, 4, 3]).expect("it fits");
                assert_eq!(to.read::<f64>(), wanted.read::<f64>());
            }
        }
        let part = target.narrow(1, 1, 2, 1).transpose(0, 2);
        part.copy_from(&numbers(1)).expect("it fits");
        assert!(part.read::<f64>().iter().all(|&x| x == 0.0) && target.read::<f64>().iter().any(|&x| x != 0.0));
        // A signalling NaN, which arithmetic would make quiet.
        part.copy_from(&Tensor::from_elements(vec![f32::from_bits(0x7f80_0001)], &[1])).expect("it fits");
        let memory = target.storage().read();
        let copied = f32::slice(&memory).expect("they are floats")[3];
        assert_eq!(copied.to_bits(), 0x7f80_0001);
    }

    #[test]
    fn elements_that_overlap_are_read_before_they_are_written() {
        let memory = numbers(6);
        let (from, to) = (memory.narrow(0, 0, 5, 1), memory.narrow(0, 1, 5, 1));
        to.copy_from(&from).expect("it fits");
        assert_eq!(memory.read::<f64>(), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
        let wide = Tensor::zeros(DType::Double, &[6], Precision::Typed);
        wide.copy_from(&memory).expect("it fits");
        assert_eq!(wide.read::<f64>(), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
    }
}
