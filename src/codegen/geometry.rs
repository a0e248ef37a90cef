//! The common iteration space of all operands and results of a group: determined at launch, never
//! part of a kernel.
//!
//! Operands are broadcast to a common shape, chunks become views, and dimensions that all accesses
//! traverse alike are collapsed. The order of dimensions in memory is that of the result, which is
//! the order that PyTorch's eager kernels give. So a group of channels-last operands is one loop,
//! like one of contiguous operands.
//!
//! The space of a kernel with reductions is that of the reduced operands. The reduced dimensions
//! follow the others, whatever their order in memory, except that the innermost one stays innermost
//! if it is kept: see [`Direction`].

mod stacked;

use super::kernel::{
    ColumnReduction, Direction, Inner, Kernel, Load, Part, Reduction, ResultLayout, Source, Store, Traversal,
};
use super::kernel_plan::TUNING;
use super::window::{Division, Gives, Guard, Placed, Range, is_image};
use crate::analysis::axis_maps::AxisMap;
use crate::analysis::reduced_dims::Axes;
use crate::tensor::{Dims, Tensor, layout};
use smallvec::SmallVec;
use stacked::Stacked;

/// A strided view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// Sizes.
    pub shape: Dims,
    /// Strides in elements.
    pub strides: Dims,
    /// The distance of its first element from that of the whole tensor.
    pub offset: usize,
}

impl View {
    /// The view of a tensor, counted from its first element.
    pub(crate) fn of(tensor: &Tensor) -> View {
        View { shape: tensor.shape().into(), strides: tensor.strides().into(), offset: 0 }
    }

    /// The same with a stride in each dimension without elements, so that no load is hoisted out of
    /// the loop over it, which does not run: there is nothing to load.
    fn moving_where_empty(mut self) -> View {
        let empty = self.shape.iter().zip(&mut self.strides).filter(|(n, stride)| **n == 0 && **stride == 0);
        empty.for_each(|(_, stride)| *stride = 1);
        self
    }

    /// One of several equal parts along a dimension.
    fn part(&self, part: Part) -> Result<View, String> {
        let dim = layout::wrap(part.dim, self.shape.len()).map_err(|error| error.0)?;
        let size = *self.shape.get(dim).ok_or("a tensor without dimensions has no chunks")?;
        if part.count <= 0 || size % part.count != 0 {
            return Err(format!("{size} elements in dimension {dim} cannot be split into {} equal chunks", part.count));
        }
        let mut view = self.clone();
        view.shape[dim] = size / part.count;
        view.offset += (part.index * view.shape[dim] * view.strides[dim]) as usize;
        Ok(view)
    }

    /// A vector with one element per channel, as a view of some rank with size 1 in all other
    /// dimensions.
    fn of_channels(&self, rank: usize) -> Result<View, String> {
        let ([channels], [stride]) = (&self.shape[..], &self.strides[..]) else {
            return Err(format!("shape {:?} where one element for each channel is expected", self.shape));
        };
        let others = rank.checked_sub(2).ok_or("the normalised operand has no channel dimension")?;
        let along = |of_channels: i64, of_others: i64| -> Dims {
            std::iter::once(of_channels).chain(std::iter::repeat_n(of_others, others)).collect()
        };
        Ok(View { shape: along(*channels, 1), strides: along(*stride, 0), offset: self.offset })
    }

    /// The number of elements of memory from its first to its last element.
    fn reach(&self) -> usize {
        let lasts = self.shape.iter().zip(&self.strides).map(|(&n, &stride)| (n - 1).max(0).saturating_mul(stride));
        let last = lasts.fold(0, i64::saturating_add);
        if self.shape.contains(&0) { 0 } else { self.offset + last as usize + 1 }
    }
}

/// A launch without addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Sizes of the collapsed space, outermost first; at least one dimension.
    pub shape: Dims,
    /// The number of them that are traversed from tile to tile.
    pub kept: usize,
    /// Strides in elements, a row for each access.
    pub strides: SmallVec<[i64; 16]>,
    /// The offset of each access from the first element of its tensor.
    pub offsets: SmallVec<[usize; 16]>,
    /// The ranges in which each access is inside of its operand, see [`Geometry::row_of_bounds`];
    /// empty if all are.
    pub bounds: Vec<i64>,
    /// The access patterns of the kernel.
    pub traversal: Traversal,
    /// Sizes and strides of the tensors that it makes, without gaps.
    pub made: Vec<(Dims, Dims)>,
    /// The number of points of the space.
    pub points: usize,
    /// Whether nothing is written.
    pub is_empty: bool,
    /// The number of elements that each operand's memory must have from its first one on.
    pub reaches: Vec<usize>,
}

impl Geometry {
    /// The numbers of a row of `bounds`: how far the first position of an access is from its first
    /// element, for each dimension the first position inside and the end, and for each dimension
    /// the numbers of a [`Division`], or zeros.
    pub(crate) fn row_of_bounds(rank: usize) -> usize {
        1 + 6 * rank
    }

    /// The number of tiles, given the points of a tile along the innermost dimension; without it a
    /// tile is a whole row.
    pub(crate) fn tiles(&self, tile: Option<usize>) -> i64 {
        let rows: i64 = self.shape[..self.kept].iter().product();
        let inner = self.shape[self.shape.len() - 1];
        rows * tile.map_or(1, |tile| (inner + tile as i64 - 1) / tile as i64)
    }

    /// The number of elements that an access loads or stores, each counted once.
    pub(crate) fn elements(&self, access: usize) -> usize {
        let rank = self.shape.len();
        let strides = &self.strides[access * rank..][..rank];
        let begin = access * Geometry::row_of_bounds(rank) + 1;
        // Of a part of the space, what is in it.
        let size = |dim: usize| match self.bounds.get(begin + 2 * dim..begin + 2 * dim + 2) {
            Some(&[from, end]) => (end - from).max(0),
            _ => self.shape[dim],
        };
        (0..rank).filter(|&dim| strides[dim] != 0).map(|dim| size(dim) as usize).product()
    }
}

/// Sizes and strides of a value as a tensor of its own.
type Laid = (Dims, Dims);

/// The shapes of all values of a kernel.
struct Shapes<'k> {
    kernel: &'k Kernel,
    loads: Vec<View>,
    /// The order of dimensions that each operand of a pool suggests.
    orders: Vec<Option<&'static [usize]>>,
    steps: Vec<Laid>,
    reduced: Vec<Laid>,
    /// The shape of the reduced operands, and which of its dimensions are reduced.
    space: Option<(Dims, Vec<usize>)>,
}

/// Maps the operands of a kernel into one space. `operands` has a view for each operand that is a
/// tensor.
///
/// # Errors
/// Shapes that do not match, as text for people.
pub(crate) fn settle(kernel: &Kernel, operands: &[Option<View>]) -> Result<Geometry, String> {
    let view = |operand: usize| operands.get(operand).and_then(Option::as_ref).ok_or("an operand is not a tensor");
    let mut reaches = vec![0; operands.len()];
    let mut loads = Vec::with_capacity(kernel.loads.len());
    let (mut watched, mut orders) = (Vec::new(), vec![None; kernel.loads.len()]);
    for (k, load) in kernel.loads.iter().enumerate() {
        let whole = view(load.operand)?;
        reaches[load.operand] = whole.reach();
        let own = match load.part {
            Some(part) => whole.part(part)?,
            None => whole.clone(),
        };
        let Some(tap) = &load.tap else {
            loads.push(own);
            continue;
        };
        orders[k] = layout::suggested_order(&own.shape, &own.strides).filter(|_| kernel.keeps_channels);
        let image = tap.image.map(view).transpose()?;
        let placed = match image {
            Some(image) => tap.placed_under((&own.shape, &own.strides), &image.shape)?,
            None => tap.placed(&own.shape, &own.strides)?,
        };
        let is_plain = placed.ranges.is_empty() && tap.gives != Gives::Index;
        let offset = own.offset + if is_plain { placed.shift as usize } else { 0 };
        loads.push(View { shape: placed.shape.clone(), strides: placed.strides.clone(), offset });
        if !is_plain {
            watched.push((k, placed));
        }
    }
    let shapes = Shapes::of(kernel, loads, orders)?;
    let (space, axes) = match &shapes.space {
        Some((space, axes)) => (space.clone(), axes.clone()),
        None => (shapes.laid(kernel.stores[0].source)?.0, Vec::new()),
    };
    let stacked = Stacked::of(&shapes)?;
    let space = stacked.as_ref().map_or(space, |stacked| stacked.whole.0.clone());
    let mut made: Vec<Option<Laid>> = vec![None; kernel.made.len()];
    let mut accesses = Vec::with_capacity(kernel.accesses());
    for (k, (load, view)) in kernel.loads.iter().zip(&shapes.loads).enumerate() {
        let own = || view.clone().moving_where_empty();
        let view = stacked.as_ref().map_or_else(own, |stacked| stacked.view(k, view));
        accesses.push(placed(&view, load.axis_map, &space, &axes)?);
    }
    for store in &kernel.stores {
        if let Some(stacked) = &stacked {
            let (shape, strides) = stacked.whole.clone();
            accesses.push(View { shape: shape.clone(), strides: strides.clone(), offset: 0 });
            made[store.tensor] = Some((shape, strides));
            continue;
        }
        if let Some(column_reduction) = store.column_reduction.map(|at| &kernel.column_reductions[at]) {
            let (laid, axes) = shapes.column_reduction(column_reduction, &space)?;
            accesses.push(placed(
                &View { shape: laid.0.clone(), strides: laid.1.clone(), offset: 0 },
                store.axis_map,
                &space,
                &axes,
            )?);
            made[store.tensor] = Some(laid);
            continue;
        }
        let (shape, strides) = shapes.laid(store.source)?;
        check_result(&shape, store.axis_map, &space, &axes)?;
        let whole = made[store.tensor].get_or_insert_with(|| match store.part {
            Some(part) => shapes.joined(store.tensor, &shape, part),
            None => (shape.clone(), strides),
        });
        let whole = View { shape: whole.0.clone(), strides: whole.1.clone(), offset: 0 };
        let view = match store.part {
            Some(part) => whole.part(part)?,
            None => whole,
        };
        accesses.push(placed(&view, store.axis_map, &space, &axes)?);
    }
    layout::checked(&space).map_err(|error| error.0)?;
    let made: Vec<Laid> =
        made.into_iter().map(|made| made.ok_or("a result is never written")).collect::<Result<_, _>>()?;
    let picks = |reduction: &Reduction| reduction.op.picks();
    if axes.iter().any(|&axis| space[axis] == 0) && kernel.reductions.iter().any(picks) {
        return Err("an empty row has no largest element".to_owned());
    }
    let is_index = |k: usize| kernel.loads[k].tap.as_ref().is_some_and(|tap| tap.gives == Gives::Index);
    let watched = watched.iter().map(|(k, placed)| Watched::of(*k, placed, &space, is_index(*k)));
    let mut watched: Vec<Watched> = watched.collect();
    if let Some(stacked) = &stacked {
        watched.extend(stacked.watched(&accesses));
    }
    if kernel.has_rows() && !watched.is_empty() {
        return Err("a window that reaches beyond its operand, in a kernel that reduces".to_owned());
    }
    let mut geometry = collapsed(&space, &axes, &accesses, kernel, (made, &watched));
    geometry.reaches = reaches;
    Ok(geometry)
}

/// A load that is outside of its operand at some positions of the space.
struct Watched {
    access: usize,
    shift: i64,
    ranges: SmallVec<[Range; 2]>,
    divisions: SmallVec<[Division; 2]>,
    /// Whether it is outside at all of them.
    is_outside: bool,
    /// Whether it gives an index, and reads nothing.
    is_index: bool,
}

impl Watched {
    fn of(access: usize, placed: &Placed, space: &[i64], is_index: bool) -> Watched {
        let outer = space.len() - placed.shape.len();
        let (ranges, divisions) = Default::default();
        let mut watched = Watched { access, shift: placed.shift, ranges, divisions, is_outside: false, is_index };
        for range in &placed.ranges {
            let dim = range.dim + outer;
            // A dimension of one position is no loop, or it is broadcast.
            match placed.shape[range.dim] {
                1 => watched.is_outside |= range.from > 0 || range.end < 1,
                _ => watched.ranges.push(Range { dim, ..*range }),
            }
            watched.is_outside |= range.from >= range.end;
        }
        for division in &placed.divisions {
            match placed.shape[division.dim] {
                1 => {
                    watched.is_outside |= division.offset % division.divisor >= division.limit;
                    watched.shift += division.offset / division.divisor * division.stride;
                }
                _ => watched.divisions.push(Division { dim: division.dim + outer, ..*division }),
            }
        }
        watched
    }
}

/// A launch whose operands are contiguous and as large as the space that they lie in, where only
/// their element types are known: what kernels are printed and compiled for before they run. The
/// space has as few dimensions as reductions and parts name, and two at least, so that a reduction
/// of the first one has rows that are interleaved.
///
/// # Errors
/// Shapes that do not match: the group is divided when it runs, or runs operator by operator.
pub(crate) fn likely(kernel: &Kernel) -> Result<Geometry, String> {
    let columns = kernel.column_reductions.iter().map(|sum| &sum.axes);
    let parts = kernel.loads.iter().filter_map(|load| load.part).chain(kernel.stores.iter().filter_map(|s| s.part));
    let named = kernel.axes().into_iter().chain(columns).map(least_rank);
    // Vectors of channels are most often those of images, whose rows have one channel each.
    let of_channels = (!kernel.of_space.is_empty()).then_some(3);
    // Images have channels.
    let images = kernel.loads.iter().filter_map(|load| load.tap.as_ref()).map(|tap| tap.window.slides.len() + 2);
    let named = named.chain(parts.map(|part| rank_with(part.dim))).chain(of_channels).chain(images);
    let least = named.max().unwrap_or(0).max(2);
    if least > MOST_DIMENSIONS {
        return Err(format!("a tensor has at most {MOST_DIMENSIONS} dimensions, not {least}"));
    }
    let tried = |rank: usize| settle(kernel, &likely_views(kernel, rank)?);
    // All dimensions, and the first one, are the same only of a vector.
    tried(least).or_else(|why| tried(least + 1).or_else(|_| tried(1)).map_err(|_| why))
}

/// The dimensions of a tensor are at most as many in PyTorch (`kMaxDims` of `TensorIterator`).
const MOST_DIMENSIONS: usize = 64;

/// The fewest dimensions of a shape that has a dimension, which may count from the last.
fn rank_with(dim: i64) -> usize {
    if dim < 0 { dim.unsigned_abs() as usize } else { dim as usize + 1 }
}

fn least_rank(axes: &Axes) -> usize {
    match axes {
        Axes::All => 1,
        Axes::These(dims) => dims.iter().map(|&dim| rank_with(dim)).max().unwrap_or(1),
        Axes::ButLast(last) => last + 1,
        Axes::AllBut(kept) => kept + 2,
    }
}

/// Contiguous operands in a space of some rank.
fn likely_views(kernel: &Kernel, rank: usize) -> Result<Vec<Option<View>>, String> {
    let mut space: Dims = (0..rank as i64).map(|dim| dim + 2).collect();
    for sizes in kernel.reductions.iter().filter_map(|reduction| reduction.sizes.as_ref()) {
        let outer = rank.saturating_sub(sizes.len());
        space = space[..outer].iter().chain(sizes).copied().collect();
    }
    let axes = kernel.axes().map_or(Ok(Vec::new()), |axes| wrapped(axes, space.len()))?;
    let shape = |k: usize, load: &Load| -> Dims {
        let exact = kernel.exact.iter().find(|(source, _)| *source == Source::Load(k));
        match (exact, load.axis_map) {
            (Some((_, sizes)), _) => sizes.as_slice().into(),
            _ if !load.dimensioned => Dims::new(),
            (None, AxisMap::Channels) => space[1..2].into(),
            (None, axis_map) => mapped(axis_map, &space, &axes),
        }
    };
    let operands = kernel.loads.iter().map(|load| load.operand + 1).max().unwrap_or(0);
    let (mut views, mut images) = (vec![None; operands], Vec::new());
    for (k, load) in kernel.loads.iter().enumerate() {
        let mut shape = shape(k, load);
        if let Some(tap) = &load.tap {
            match tap.image {
                Some(image) => {
                    images.push((image, shape.clone()));
                    shape = tap.window.positions(&shape);
                }
                None => shape = tap.window.operand(&shape),
            }
        }
        if let Some(part) = load.part {
            let dim = layout::wrap(part.dim, shape.len()).map_err(|error| error.0)?;
            shape[dim] *= part.count;
        }
        let strides = layout::contiguous(&shape);
        views[load.operand].get_or_insert(View { shape, strides, offset: 0 });
    }
    for (image, shape) in images {
        let strides = layout::contiguous(&shape);
        views.resize(views.len().max(image + 1), None);
        views[image].get_or_insert(View { shape, strides, offset: 0 });
    }
    Ok(views)
}

/// A view of an access in the space: broadcast, with stride 0 in dimensions that it does not have.
fn placed(view: &View, axis_map: AxisMap, space: &[i64], axes: &[usize]) -> Result<View, String> {
    if axis_map == AxisMap::Channels {
        let view = view.of_channels(space.len())?;
        let (found, asked) = (view.shape[0], space[1]);
        return match found == asked {
            true => placed(&view, AxisMap::Whole, space, axes),
            false => Err(format!("{found} elements for {asked} channels")),
        };
    }
    let shape = mapped(axis_map, space, axes);
    if !layout::broadcast(&view.shape, &shape).is_ok_and(|all| all == shape) {
        return Err(format!("shape {:?} cannot be broadcast to {shape:?}, the shape of the results", view.shape));
    }
    let mut strides = layout::expanded(&view.shape, &view.strides, &shape);
    if axis_map == AxisMap::Kept {
        axes.iter().for_each(|&axis| strides.insert(axis, 0));
    }
    Ok(View { shape: space.into(), strides, offset: view.offset })
}

/// The shape that an axis map gives for a space.
fn mapped(axis_map: AxisMap, space: &[i64], axes: &[usize]) -> Dims {
    let is_there = |dim: &usize| axis_map == AxisMap::Whole || !axes.contains(dim);
    (0..space.len()).filter(is_there).map(|dim| space[dim]).collect()
}

/// Checks that a result has an element for each point, or one for each row.
fn check_result(shape: &Dims, axis_map: AxisMap, space: &Dims, axes: &[usize]) -> Result<(), String> {
    let is_row = |(dim, &size): (usize, &i64)| size == if axes.contains(&dim) { 1 } else { space[dim] };
    let of_rows = axis_map == AxisMap::Whole && shape.len() == space.len() && shape.iter().enumerate().all(is_row);
    match *shape == mapped(axis_map, space, axes) || of_rows && !axes.is_empty() {
        true => Ok(()),
        false => Err(format!("results have different shapes, {space:?} and {shape:?}")),
    }
}

/// Dimensions of a shape, in order.
fn wrapped(axes: &Axes, rank: usize) -> Result<Vec<usize>, String> {
    let mut axes = match axes {
        Axes::All => (0..rank).collect(),
        Axes::These(dims) => layout::wrap_all(dims, rank).map_err(|error| error.0)?,
        Axes::ButLast(last) => (0..rank.saturating_sub(*last)).collect(),
        Axes::AllBut(kept) => (0..rank).filter(|dim| dim != kept).collect(),
    };
    axes.sort_unstable();
    // A value without dimensions counts as a row of one element.
    axes.truncate(rank);
    Ok(axes)
}

/// A result of a batch norm, which is channels last where its operand is.
fn with_channels(shape: &Dims, operand: Option<&Laid>) -> Laid {
    let operand = operand.filter(|(sizes, _)| sizes == shape);
    let order = operand.and_then(|(sizes, strides)| layout::order_of_norm(sizes, strides));
    (shape.clone(), order.map_or_else(|| layout::contiguous(shape), |order| layout::strides_in_order(shape, order)))
}

/// A shape without its reduced dimensions.
fn without(whole: &Dims, axes: &[usize], keep: bool) -> Dims {
    let kept = (0..whole.len()).filter(|dim| keep || !axes.contains(dim));
    kept.map(|dim| if axes.contains(&dim) { 1 } else { whole[dim] }).collect()
}

impl<'k> Shapes<'k> {
    fn of(kernel: &'k Kernel, loads: Vec<View>, orders: Vec<Option<&'static [usize]>>) -> Result<Shapes<'k>, String> {
        let mut shapes = Shapes { kernel, loads, orders, steps: Vec::new(), reduced: Vec::new(), space: None };
        // Steps and reductions follow the values that they read, each in a list of its own.
        while shapes.steps.len() < kernel.steps.len() || shapes.reduced.len() < kernel.reductions.len() {
            let before = (shapes.steps.len(), shapes.reduced.len());
            while shapes.steps.len() < kernel.steps.len() && shapes.knows_step(shapes.steps.len()) {
                let step = shapes.step(shapes.steps.len())?;
                shapes.steps.push(step);
            }
            while shapes.reduced.len() < kernel.reductions.len()
                && shapes.knows(kernel.reductions[shapes.reduced.len()].input.source)
            {
                let reduced = shapes.reduce(shapes.reduced.len())?;
                shapes.reduced.push(reduced);
            }
            if before == (shapes.steps.len(), shapes.reduced.len()) {
                return Err("values of a kernel read each other".to_owned());
            }
        }
        for source in &kernel.of_space {
            let (shape, _) = shapes.laid(*source)?;
            let (space, _) = shapes.space.get_or_insert_with(|| (shape.clone(), Vec::new()));
            if *space != shape {
                return Err(format!("a norm of shape {shape:?} in a kernel over {space:?}"));
            }
        }
        for &(source, dims) in &kernel.images {
            is_image(&shapes.laid(source)?.0, dims)?;
        }
        for (source, sizes) in &kernel.exact {
            let (shape, _) = shapes.laid(*source)?;
            if shape[..] != sizes[..] {
                return Err(format!("shape {shape:?} where {sizes:?} is required"));
            }
        }
        Ok(shapes)
    }

    /// The layout of a concatenation: channels last where all parts are, else contiguous.
    fn joined(&self, tensor: usize, part_shape: &[i64], part: Part) -> Laid {
        let mut shape: Dims = part_shape.into();
        // A missing dimension is refused when the parts are looked for.
        if let Some(size) = layout::wrap(part.dim, shape.len()).ok().and_then(|dim| shape.get_mut(dim)) {
            *size *= part.count;
        }
        let strides = self.order_of_parts(tensor, &shape);
        (shape, strides)
    }

    /// The strides of a concatenation.
    fn order_of_parts(&self, tensor: usize, shape: &Dims) -> Dims {
        let stores = self.kernel.stores.iter().filter(|store| store.tensor == tensor);
        let order = |store: &Store| {
            let (shape, strides) = self.laid(store.source).ok()?;
            layout::suggested_order(&shape, &strides)
        };
        let orders: SmallVec<[_; 4]> = stores.map(order).collect();
        match orders.first().copied().flatten().filter(|_| self.kernel.keeps_channels) {
            Some(first) if orders.iter().all(|&order| order == Some(first)) => layout::strides_in_order(shape, first),
            _ => layout::contiguous(shape),
        }
    }

    fn knows(&self, source: Source) -> bool {
        match source {
            Source::Step(i) => i < self.steps.len(),
            Source::Reduced(k) => k < self.reduced.len(),
            _ => true,
        }
    }

    fn knows_step(&self, i: usize) -> bool {
        self.kernel.steps[i].inputs.iter().all(|input| self.knows(input.source))
    }

    /// The number of dimensions of the space, as far as it is known.
    fn rank(&self) -> Result<usize, String> {
        match (&self.space, self.kernel.of_space.first()) {
            (Some((space, _)), _) => Ok(space.len()),
            (None, Some(&source)) => Ok(self.laid(source)?.0.len()),
            (None, None) => Ok(0),
        }
    }

    fn laid(&self, source: Source) -> Result<Laid, String> {
        match source {
            Source::Load(k) if self.kernel.loads[k].axis_map == AxisMap::Channels => {
                self.loads[k].of_channels(self.rank()?).map(|view| (view.shape, view.strides))
            }
            Source::Load(k) => Ok((self.loads[k].shape.clone(), self.loads[k].strides.clone())),
            Source::Step(i) => Ok(self.steps[i].clone()),
            Source::Reduced(k) => Ok(self.reduced[k].clone()),
            _ => Err("a result is a number".to_owned()),
        }
    }

    /// The shape of a step, and the order of dimensions that eager kernels would give it.
    fn step(&mut self, i: usize) -> Result<Laid, String> {
        let step = &self.kernel.steps[i];
        let is_tensor = |source: &Source| matches!(source, Source::Load(_) | Source::Step(_) | Source::Reduced(_));
        let sources = step.inputs.iter().map(|input| input.source).filter(is_tensor);
        let operands: SmallVec<[Laid; 4]> = sources.map(|source| self.laid(source)).collect::<Result<_, _>>()?;
        let shape = layout::broadcast_all(operands.iter().map(|(shape, _)| shape.as_slice()));
        let shape = shape.map_err(|error| error.0)?;
        if let Some(scan) = &step.scan {
            self.rows(&scan.axes, &shape)?;
        }
        if step.drops {
            let axes = self.space.as_ref().map_or(&[][..], |(_, axes)| axes);
            let shape = mapped(AxisMap::Kept, &shape, axes);
            let has_dims = self.kernel.reductions.iter().any(|reduction| reduction.axes != Axes::All);
            self.promoted_alike(&shape, has_dims)?;
            return Ok((shape.clone(), layout::contiguous(&shape)));
        }
        match step.layout {
            ResultLayout::AsOperands => {}
            ResultLayout::Contiguous => return Ok((shape.clone(), layout::contiguous(&shape))),
            ResultLayout::AsImage(load) => {
                let strides = self.orders[load].map(|order| layout::strides_in_order(&shape, order));
                return Ok((shape.clone(), strides.unwrap_or_else(|| layout::contiguous(&shape))));
            }
            ResultLayout::Kept => {
                let (_, strides) = operands.first().ok_or("a conversion has no operand")?;
                let strides = layout::kept_strides(&shape, strides);
                return Ok((shape, strides));
            }
            // Before 1.5 norms knew no order of dimensions.
            ResultLayout::WithChannels if !self.kernel.keeps_channels => {
                return Ok((shape.clone(), layout::contiguous(&shape)));
            }
            ResultLayout::WithChannels => return Ok(with_channels(&shape, operands.first())),
        }
        let operands: SmallVec<[_; 4]> = operands.iter().map(|(own, strides)| (&own[..], &strides[..])).collect();
        let strides = layout::traversal_strides(&shape, &operands);
        Ok((shape, strides))
    }

    /// The shape of a column reduction, and the dimensions of the space that it sums over.
    fn column_reduction(&self, column_reduction: &ColumnReduction, space: &Dims) -> Result<(Laid, Vec<usize>), String> {
        let (whole, _) = self.laid(column_reduction.input.source)?;
        if whole != *space {
            return Err(format!("a sum over shape {whole:?} in a kernel over {space:?}"));
        }
        let axes = wrapped(&column_reduction.axes, whole.len())?;
        let shape = without(&whole, &axes, column_reduction.keep);
        let strides = layout::contiguous(&shape);
        Ok(((shape, strides), axes))
    }

    /// The reduced dimensions of a shape; records that this shape is the space.
    fn rows(&mut self, axes: &Axes, whole: &Dims) -> Result<Vec<usize>, String> {
        let axes = wrapped(axes, whole.len())?;
        let known = self.space.get_or_insert_with(|| (whole.clone(), axes.clone()));
        if *known != (whole.clone(), axes.clone()) {
            return Err(format!(
                "reductions over dimensions {axes:?} of {whole:?} and over {:?} of {:?}",
                known.1, known.0
            ));
        }
        Ok(axes)
    }

    /// The shape of a reduction's result.
    fn reduce(&mut self, k: usize) -> Result<Laid, String> {
        let reduction = &self.kernel.reductions[k];
        let (whole, _) = self.laid(reduction.input.source)?;
        let axes = self.rows(&reduction.axes, &whole)?;
        let shape = without(&whole, &axes, reduction.keep);
        if let Some(sizes) = &reduction.sizes
            && !whole.ends_with(sizes)
        {
            return Err(format!("shape {whole:?} does not end in {sizes:?}"));
        }
        self.promoted_alike(&shape, !reduction.keep && reduction.axes != Axes::All)?;
        let strides = layout::contiguous(&shape);
        Ok((shape, strides))
    }

    /// The class of a reduced value in promotion was decided before its rank was known: a value
    /// that then `has_dims` must have some, unless there is nothing to promote.
    fn promoted_alike(&self, shape: &[i64], has_dims: bool) -> Result<(), String> {
        match shape.is_empty() && has_dims && !self.kernel.is_of_one_type() {
            true => Err("a reduction over all dimensions is promoted like a tensor without dimensions".to_owned()),
            false => Ok(()),
        }
    }
}

/// Dimensions of a space, outermost first; neighbours that all accesses traverse as one are merged.
#[derive(Default)]
struct Collapsed {
    shape: Dims,
    /// A row for each dimension: the stride of each access.
    strides: Vec<SmallVec<[i64; 16]>>,
    /// The innermost of the dimensions that each is.
    dims: Vec<usize>,
}

impl Collapsed {
    /// Dimensions in which an access may be outside of its operand are merged with none.
    fn of(dims: impl Iterator<Item = usize>, space: &[i64], accesses: &[View], watched: &[Watched]) -> Collapsed {
        let is_watched = |dim: usize| watched.iter().any(|one| one.ranges.iter().any(|range| range.dim == dim));
        let mut made = Collapsed::default();
        for dim in dims {
            let (size, strides) = (space[dim], accesses.iter().map(|view| view.strides[dim]));
            let strides: SmallVec<[i64; 16]> = strides.collect();
            let is_apart = made.dims.last().is_some_and(|&last| is_watched(last) || is_watched(dim));
            match made.strides.last_mut().filter(|_| !is_apart) {
                Some(last) if last.iter().zip(&strides).all(|(outer, inner)| *outer == inner * size) => {
                    *last = strides;
                    *made.shape.last_mut().expect("there is a size for each row") *= size;
                    *made.dims.last_mut().expect("there is a dimension for each row") = dim;
                }
                _ => {
                    made.shape.push(size);
                    made.strides.push(strides);
                    made.dims.push(dim);
                }
            }
        }
        made
    }

    /// Adds a dimension of size 1 where there is none. Any stride will do.
    fn or_single(mut self, strides: impl FnOnce() -> SmallVec<[i64; 16]>) -> Collapsed {
        if self.shape.is_empty() {
            self.shape.push(1);
            self.strides.push(strides());
            self.dims.push(usize::MAX);
        }
        self
    }

    fn and(mut self, other: Collapsed) -> Collapsed {
        self.shape.extend(other.shape);
        self.strides.extend(other.strides);
        self.dims.extend(other.dims);
        self
    }

    /// Splits off the innermost dimension.
    fn pop(&mut self) -> Option<Collapsed> {
        let (size, strides, dim) = (self.shape.pop()?, self.strides.pop()?, self.dims.pop()?);
        Some(Collapsed { shape: Dims::from_slice(&[size]), strides: vec![strides], dims: vec![dim] })
    }

    /// The row of each access in [`Geometry::bounds`], and which of them have a guard.
    fn bounds(&self, accesses: usize, watched: &[Watched]) -> (Vec<i64>, SmallVec<[Guard; 16]>) {
        let (mut bounds, mut guards) = (Vec::new(), SmallVec::from_elem(Guard::None, accesses));
        if watched.is_empty() {
            return (bounds, guards);
        }
        for access in 0..accesses {
            let own = watched.iter().find(|one| one.access == access);
            bounds.push(own.map_or(0, |own| own.shift));
            for (&size, dim) in self.shape.iter().zip(&self.dims) {
                let range = own.and_then(|own| own.ranges.iter().find(|range| range.dim == *dim));
                let is_outside = own.is_some_and(|own| own.is_outside);
                let (from, end) = range.map_or((0, size), |range| (range.from, range.end));
                bounds.extend(if is_outside { [0, 0] } else { [from.min(size), end.clamp(0, size)] });
            }
            let division = |dim: &usize| own.and_then(|own| own.divisions.iter().find(|one| one.dim == *dim));
            for dim in &self.dims {
                let found = division(dim).map(|one| [one.offset, one.divisor, one.limit, one.stride]);
                bounds.extend(found.unwrap_or_default());
            }
            if let Some(own) = own {
                let is_point = self.dims.len() == 1 && own.is_outside;
                let has_last = own.ranges.iter().any(|range| self.dims.last() == Some(&range.dim));
                let last = self.dims.last().and_then(division);
                guards[access] = match (own.divisions.is_empty(), last) {
                    (_, Some(one)) => Guard::PointUnder(one.divisor, one.limit),
                    (false, None) => Guard::RowUnder,
                    _ if is_point || has_last => Guard::Point,
                    _ if own.is_index && !own.is_outside && own.ranges.is_empty() => Guard::None,
                    _ => Guard::Row,
                };
            }
        }
        (bounds, guards)
    }
}

/// The loads that are invariant along all dimensions but the innermost, in kernels without
/// reductions. None where nothing is computed from those alone, since each pattern is another
/// kernel, or where rows are too long to be kept.
fn shared_by_rows(kernel: &Kernel, all: &Collapsed, guards: &[Guard]) -> SmallVec<[bool; 16]> {
    let outer = &all.strides[..all.strides.len() - 1];
    let is_kept = !outer.is_empty() && all.shape.last().is_some_and(|&n| n <= TUNING.shared as i64);
    let is_inside = |access: usize| guards[access] == Guard::None;
    let stands = |access: usize| is_kept && is_inside(access) && outer.iter().all(|strides| strides[access] == 0);
    let invariant: SmallVec<[bool; 16]> =
        (0..kernel.accesses()).map(|access| access < kernel.loads.len() && stands(access)).collect();
    let none = || SmallVec::from_elem(false, kernel.accesses());
    if kernel.columns(&invariant).kept.is_empty() { none() } else { invariant }
}

/// Orders dimensions as in the first result, or the first reduced operand, and collapses them.
fn collapsed(
    space: &Dims,
    axes: &[usize],
    accesses: &[View],
    kernel: &Kernel,
    (made, watched): (Vec<Laid>, &[Watched]),
) -> Geometry {
    let loads = kernel.loads.len();
    let is_traversed = |view: &&View| axes.iter().any(|&axis| view.strides[axis] != 0 && space[axis] != 1);
    let has_rows = kernel.has_rows();
    // The first of the accesses with most elements: a broadcast operand determines little of the
    // order.
    let walked =
        |view: &View| (0..space.len()).filter(|&dim| view.strides[dim] != 0).map(|dim| space[dim]).product::<i64>();
    let most = accesses[..loads].iter().filter(is_traversed).rev().max_by_key(|view| walked(view));
    let first = most.filter(|_| has_rows).unwrap_or(&accesses[loads]);
    let mut order: Vec<usize> = (0..space.len()).filter(|&dim| space[dim] != 1).collect();
    // Indices of argmax and argmin count elements in the order of dimensions.
    if !kernel.has_arg_reductions() || axes.len() < 2 {
        order.sort_by_key(|&dim| std::cmp::Reverse(first.strides[dim]));
    }
    // A scan is never one value per row, even if the row has one element.
    let runs_over_one = kernel.has_scan() && axes.iter().all(|&axis| space[axis] == 1);
    let invariant = |(access, view): (usize, &View)| {
        let stands = axes.iter().all(|&axis| view.strides[axis] == 0 || space[axis] == 1);
        has_rows && !runs_over_one && stands && !kernel.is_column_reduction(access)
    };
    let along = order.last().is_none_or(|dim| axes.contains(dim));
    let part = |reduced: bool| {
        let dims = order.iter().copied().filter(|dim| axes.contains(dim) == reduced);
        Collapsed::of(dims, space, accesses, watched)
    };
    // A single point gets the pattern that larger operands have.
    let point = || (0..accesses.len()).map(|k| i64::from(k >= loads || kernel.loads[k].dimensioned)).collect();
    let nowhere = || accesses.iter().map(|_| 0).collect();
    let (mut kept, reduced) = (part(false), part(true));
    let is_strided = order.iter().skip_while(|dim| !axes.contains(dim)).any(|dim| !axes.contains(dim));
    let is_strided = is_strided && !kernel.has_scan();
    let direction = if is_strided { Direction::Strided } else { Direction::Inner };
    let (direction, kept, all) = match (has_rows, along) {
        (false, _) => {
            let all = kept.or_single(point);
            (Direction::Points, all.shape.len() - 1, all)
        }
        (true, true) => (direction, kept.shape.len(), kept.and(reduced.or_single(nowhere))),
        (true, false) => {
            let innermost = kept.pop().unwrap_or_default().or_single(nowhere);
            (Direction::Outer, kept.shape.len(), kept.and(reduced.or_single(nowhere)).and(innermost))
        }
    };
    let (bounds, guards) = all.bounds(accesses.len(), watched);
    let invariant = match direction {
        Direction::Points => shared_by_rows(kernel, &all, &guards),
        _ => accesses.iter().enumerate().map(invariant).collect(),
    };
    let strides = (0..accesses.len()).flat_map(|access| all.strides.iter().map(move |row| row[access]));
    let innermost = &all.strides[all.strides.len() - 1];
    Geometry {
        traversal: Traversal {
            direction,
            inner: innermost.iter().map(|&stride| Inner::of(stride)).collect(),
            invariant,
            guards,
        },
        bounds,
        strides: strides.collect(),
        offsets: accesses.iter().map(|view| view.offset).collect(),
        points: layout::numel(space),
        is_empty: made.iter().all(|made| made.0.contains(&0)),
        shape: all.shape,
        kept,
        made,
        reaches: Vec::new(),
    }
}
