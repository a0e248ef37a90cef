//! One iteration space for all operands and results of a group: found at launch, and never part of a kernel.
//!
//! Operands are stretched to a common shape, chunks become views, dimensions that all accesses walk alike are collapsed. The
//! order of dimensions in memory is that of the result, which is the one that PyTorch's eager kernels give: so a group whose operands
//! are channels-last is one loop, as it is when they are not.

use crate::codegen::kernel::{Inner, Kernel, Part, Source};
use crate::tensor::{Dims, Tensor, layout};
use smallvec::SmallVec;

/// A strided view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// Sizes.
    pub shape: Dims,
    /// Strides in elements.
    pub strides: Dims,
    /// Where the first element is.
    pub offset: usize,
}

impl View {
    /// Of a tensor.
    pub fn of(tensor: &Tensor) -> View {
        View { shape: tensor.shape().into(), strides: tensor.strides().into(), offset: tensor.offset() }
    }

    /// One of several equal parts.
    fn part(&self, part: Part) -> Result<View, String> {
        let dim = layout::wrap(part.dim, self.shape.len()).map_err(|error| error.0)?;
        let size = *self.shape.get(dim).ok_or("a tensor without dimensions has no chunks")?;
        if part.count <= 0 || size % part.count != 0 {
            return Err(format!("{size} elements along dimension {dim} do not make {} equal chunks", part.count));
        }
        let mut view = self.clone();
        view.shape[dim] = size / part.count;
        view.offset += (part.index * view.shape[dim] * view.strides[dim]) as usize;
        Ok(view)
    }

    /// How many elements of memory it reaches over, from the first of the memory.
    fn reach(&self) -> usize {
        let last: i64 = self.shape.iter().zip(&self.strides).map(|(&n, &stride)| (n - 1).max(0) * stride).sum();
        if self.shape.contains(&0) { 0 } else { self.offset + last as usize + 1 }
    }
}

/// A launch, but for addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Sizes of the collapsed space, outermost first; at least one.
    pub shape: Dims,
    /// Strides in elements, a row for each access.
    pub strides: SmallVec<[i64; 16]>,
    /// Where each access begins in its memory.
    pub offsets: SmallVec<[usize; 16]>,
    /// How each access moves along the innermost dimension.
    pub inner: SmallVec<[Inner; 16]>,
    /// The tensors that are made: sizes and strides, without gaps.
    pub made: Vec<(Dims, Dims)>,
    /// How many points the space has.
    pub points: usize,
    /// How many elements each operand's memory must have.
    pub reaches: Vec<usize>,
}

/// Sizes and strides that a value would have as a tensor of its own.
type Laid = (Dims, Dims);

/// Maps the operands of a kernel into one space. `operands` has a view for each operand that is a tensor.
///
/// # Errors
/// Shapes that do not go together, in words for people.
pub fn settle(kernel: &Kernel, operands: &[Option<View>]) -> Result<Geometry, String> {
    let view = |operand: usize| operands.get(operand).and_then(Option::as_ref).ok_or("an operand is no tensor");
    let mut reaches = vec![0; operands.len()];
    let mut loads = Vec::with_capacity(kernel.loads.len());
    for load in &kernel.loads {
        let whole = view(load.operand)?;
        reaches[load.operand] = whole.reach();
        loads.push(match load.part {
            Some(part) => whole.part(part)?,
            None => whole.clone(),
        });
    }
    let steps = laid_out(kernel, &loads)?;
    let laid = |source: Source| -> Result<Laid, String> {
        match source {
            Source::Load(k) => Ok((loads[k].shape.clone(), loads[k].strides.clone())),
            Source::Step(i) => Ok(steps[i].clone()),
            _ => Err("a result is a number".to_owned()),
        }
    };
    let space = laid(kernel.stores[0].source)?.0;
    let mut made: Vec<Option<Laid>> = vec![None; kernel.made.len()];
    let mut stores = Vec::with_capacity(kernel.stores.len());
    for store in &kernel.stores {
        let (shape, strides) = laid(store.source)?;
        if shape != space {
            return Err(format!("results have different shapes, {space:?} and {shape:?}"));
        }
        let whole = made[store.tensor].get_or_insert_with(|| match store.part {
            Some(part) => joined(&shape, part),
            None => (shape.clone(), strides),
        });
        let whole = View { shape: whole.0.clone(), strides: whole.1.clone(), offset: 0 };
        stores.push(match store.part {
            Some(part) => whole.part(part)?,
            None => whole,
        });
    }
    let accesses: Vec<View> = loads.into_iter().chain(stores).collect();
    if let Some(odd) = accesses.iter().find(|view| !goes_into(&view.shape, &space)) {
        return Err(format!("a shape of {:?} does not go into results of {space:?}", odd.shape));
    }
    layout::checked(&space).map_err(|error| error.0)?;
    let made = made.into_iter().map(|made| made.ok_or("a result is never written")).collect::<Result<_, _>>()?;
    Ok(collapsed(&space, &accesses, kernel, made, reaches))
}

fn goes_into(shape: &[i64], space: &[i64]) -> bool {
    layout::broadcast(shape, space).is_ok_and(|all| all[..] == *space)
}

/// The shape of several parts side by side, in a row.
fn joined(part_shape: &[i64], part: Part) -> Laid {
    let mut shape: Dims = part_shape.into();
    // What has no such dimension is refused when its parts are looked for.
    if let Some(size) = layout::wrap(part.dim, shape.len()).ok().and_then(|dim| shape.get_mut(dim)) {
        *size *= part.count;
    }
    let strides = layout::contiguous(&shape);
    (shape, strides)
}

/// The shapes of all steps, and the order of dimensions that eager kernels would give each of them.
fn laid_out(kernel: &Kernel, loads: &[View]) -> Result<Vec<Laid>, String> {
    let mut steps: Vec<Laid> = Vec::with_capacity(kernel.steps.len());
    for step in &kernel.steps {
        let operands = step.inputs.iter().filter_map(|input| match input.source {
            Source::Load(k) => Some((&loads[k].shape, &loads[k].strides)),
            Source::Step(i) => Some((&steps[i].0, &steps[i].1)),
            _ => None,
        });
        let operands: SmallVec<[_; 4]> = operands.collect();
        let shape = layout::broadcast_all(operands.iter().map(|(shape, _)| shape.as_slice()));
        let shape = shape.map_err(|error| error.0)?;
        let strides: SmallVec<[Dims; 4]> =
            operands.iter().map(|(own, strides)| layout::expanded(own, strides, &shape)).collect();
        let order = layout::iteration_order(&shape, &strides);
        let strides = layout::strides_in_order(&shape, &order);
        drop(operands);
        steps.push((shape, strides));
    }
    Ok(steps)
}

/// Puts dimensions into the order of the first result, and makes one of neighbours that all accesses walk as one.
fn collapsed(space: &Dims, accesses: &[View], kernel: &Kernel, made: Vec<Laid>, reaches: Vec<usize>) -> Geometry {
    let expanded: Vec<Dims> = accesses.iter().map(|view| layout::expanded(&view.shape, &view.strides, space)).collect();
    let first = &expanded[kernel.loads.len()];
    let mut order: Vec<usize> = (0..space.len()).filter(|&dim| space[dim] != 1).collect();
    order.sort_by_key(|&dim| std::cmp::Reverse(first[dim]));
    let mut shape: Dims = Dims::new();
    let mut rows: Vec<SmallVec<[i64; 6]>> = vec![SmallVec::new(); accesses.len()];
    for dim in order {
        let size = space[dim];
        let last = shape.len().wrapping_sub(1);
        let goes_on = |(row, strides): (&SmallVec<[i64; 6]>, &Dims)| row[last] == strides[dim] * size;
        if !shape.is_empty() && rows.iter().zip(&expanded).all(goes_on) {
            shape[last] *= size;
            rows.iter_mut().zip(&expanded).for_each(|(row, strides)| row[last] = strides[dim]);
        } else {
            shape.push(size);
            rows.iter_mut().zip(&expanded).for_each(|(row, strides)| row.push(strides[dim]));
        }
    }
    if shape.is_empty() {
        // A single point: any stride will do, and these make the pattern that larger operands have.
        shape.push(1);
        let stride = |view: &View| i64::from(!view.shape.is_empty());
        rows.iter_mut().zip(accesses).for_each(|(row, view)| row.push(stride(view)));
        rows[kernel.loads.len()..].iter_mut().for_each(|row| row[0] = 1);
    }
    Geometry {
        inner: rows.iter().map(|row| Inner::of(row[row.len() - 1])).collect(),
        strides: rows.into_iter().flatten().collect(),
        offsets: accesses.iter().map(|view| view.offset).collect(),
        points: layout::numel(space),
        shape,
        made,
        reaches,
    }
}
