//! Concatenations of parts of different sizes.
//!
//! ```text
//! cat([x, y], 1) of [2, 3] and [2, 5]      the space is [2, 8]
//!   out0, of x: positions 0 to 3           in0 is read at the position
//!   out1, of y: positions 3 to 8           in1 is read 3 elements before it
//! ```
//!
//! Each store has a part of the space, and loops over a tile run over what is in it. Equal parts
//! need no such loops: their space is that of one part.

use super::super::kernel::{Part, Source, Store};
use super::super::window::{Placed, Range};
use super::{Laid, Shapes, View, Watched};
use crate::tensor::{Dims, layout};
use smallvec::smallvec;

/// A concatenation of parts of different sizes: the space is that of the result, and each access of
/// a part is shifted to where that begins.
pub(super) struct Stacked {
    pub(super) whole: Laid,
    dim: usize,
    /// The start and the size of each part.
    parts: Vec<(i64, i64)>,
    /// The part that each load is read for, where its size is that of the part.
    part_of: Vec<Option<usize>>,
    loads: usize,
}

impl Stacked {
    /// None where parts are equal, or results are no parts.
    pub(super) fn of(shapes: &Shapes<'_>) -> Result<Option<Stacked>, String> {
        let kernel = shapes.kernel;
        let Some(Part { dim, .. }) = kernel.stores.first().and_then(|store| store.part) else { return Ok(None) };
        if kernel.made.len() != 1 || kernel.stores.iter().any(|store| store.part.is_none()) {
            return Ok(None);
        }
        let shape = |store: &Store| shapes.laid(store.source).map(|laid| laid.0);
        let all: Vec<Dims> = kernel.stores.iter().map(shape).collect::<Result<_, _>>()?;
        let dim = layout::wrap(dim, all[0].len()).map_err(|error| error.0)?;
        if all.windows(2).all(|two| two[0] == two[1]) || all[0].is_empty() {
            return Ok(None);
        }
        let mut whole = all[0].clone();
        whole[dim] = all.iter().map(|shape| shape.get(dim).copied().unwrap_or(0)).sum();
        let is_part = |shape: &Dims| {
            let others = shape.iter().zip(&whole).enumerate().all(|(at, (own, all))| at == dim || own == all);
            shape.len() == whole.len() && others
        };
        if !all.iter().all(is_part) {
            return Err(format!("parts of shapes {:?} and others", all[0]));
        }
        if kernel.has_rows() || kernel.loads.iter().any(|load| load.tap.is_some()) {
            return Err("parts of different sizes in a kernel that reduces, or has windows".to_owned());
        }
        let mut begin = 0;
        let part = |shape: &Dims| {
            begin += shape[dim];
            (begin - shape[dim], shape[dim])
        };
        let parts: Vec<(i64, i64)> = all.iter().map(part).collect();
        let part_of = parts_of_loads(shapes, dim, whole.len())?;
        let strides = shapes.order_of_parts(kernel.stores[0].tensor, &whole);
        Ok(Some(Stacked { whole: (whole, strides), dim, parts, part_of, loads: kernel.loads.len() }))
    }

    /// The view of a load, as long as the space: only its part is read.
    pub(super) fn view(&self, load: usize, view: &View) -> View {
        let mut view = view.clone();
        if self.part_of[load].is_some() {
            let at = self.dim + view.shape.len() - self.whole.0.len();
            view.shape[at] = self.whole.0[self.dim];
        }
        view
    }

    /// The position of each access of a part.
    pub(super) fn watched(&self, accesses: &[View]) -> Vec<Watched> {
        let of_store = |part: usize| (self.loads + part, part);
        let of_load = |(load, part): (usize, &Option<usize>)| part.map(|part| (load, part));
        let loads = self.part_of.iter().enumerate().filter_map(of_load);
        let all = loads.chain((0..self.parts.len()).map(of_store));
        let watched = |(access, part): (usize, usize)| {
            let ((begin, size), dim) = (self.parts[part], self.dim);
            // A part without elements has no memory to be counted back from.
            let shift = if access < self.loads && size > 0 { -begin * accesses[access].strides[dim] } else { 0 };
            let placed = Placed {
                shape: self.whole.0.clone(),
                shift,
                ranges: smallvec![Range { dim, from: begin, end: begin + size }],
                ..Placed::default()
            };
            Watched::of(access, &placed, &self.whole.0, false)
        };
        all.map(watched).collect()
    }
}

/// The part that each load is read for.
fn parts_of_loads(shapes: &Shapes<'_>, dim: usize, rank: usize) -> Result<Vec<Option<usize>>, String> {
    let kernel = shapes.kernel;
    let mut part_of: Vec<Option<usize>> = vec![None; kernel.loads.len()];
    for (part, store) in kernel.stores.iter().enumerate() {
        let mut open = vec![store.source];
        while let Some(source) = open.pop() {
            match source {
                Source::Step(i) => open.extend(kernel.steps[i].inputs.iter().map(|input| input.source)),
                Source::Load(k) => {
                    let view = &shapes.loads[k];
                    let own = (dim + view.shape.len()).checked_sub(rank).map(|at| view.shape[at]);
                    let is_broadcast = own.is_none_or(|own| own == 1);
                    match part_of[k] {
                        _ if is_broadcast => {}
                        Some(other) if other != part => {
                            return Err(format!(
                                "an operand of shape {:?} in two parts, which have different sizes",
                                view.shape
                            ));
                        }
                        _ => part_of[k] = Some(part),
                    }
                }
                _ => {}
            }
        }
    }
    Ok(part_of)
}
