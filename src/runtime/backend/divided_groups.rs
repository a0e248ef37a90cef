//! Groups that run as several kernels.

use super::{CpuBackend, Known, NAME, Piece, Request, Wanted, known};
use crate::codegen::kernel::Kernel;
use crate::codegen::lowering::{Argument, lower};
use crate::interpreter::IValue;
use crate::interpreter::call::Outs;
use crate::ir::{Graph, Value};
use crate::runtime::division::divide;
use crate::runtime::geometry::{Geometry, View, settle};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Most groups that cannot be divided, and what they were to run on, that are remembered.
const MOST_SIZES: usize = 256;

impl CpuBackend {
    /// Runs a group as several kernels, if it can be divided.
    pub(super) fn run_divided(&self, request: Request<'_>) -> Option<Result<Outs, String>> {
        let pieces = self.division(&request)?;
        Some(self.run_pieces(request, &pieces))
    }

    fn run_pieces(&self, request: Request<'_>, pieces: &[Piece]) -> Result<Outs, String> {
        let section = request.section;
        let mut values: FxHashMap<Value, IValue> =
            section.params(section.root()).zip(request.operands.iter().cloned()).collect();
        let mut launched = 0;
        for piece in pieces {
            let operands: Vec<IValue> = piece.operands.iter().map(|value| values[value].clone()).collect();
            let request = Request { section: &piece.section, operands: &operands, ..request };
            let mut prepared = self.prepared(request)?;
            prepared.launch()?;
            launched += u64::from(!prepared.geometry.is_empty);
            values.extend(piece.results.iter().copied().zip(prepared.results()?));
        }
        self.count(|counts| {
            counts.launched += launched;
            counts.divided += 1;
        });
        Ok(section.results(section.root()).map(|result| values[&result].clone()).collect())
    }

    /// The pieces of a group, compiled together. Those that other sizes made are tried first.
    fn division(&self, request: &Request<'_>) -> Option<Rc<Vec<Piece>>> {
        let operands: Vec<Known> = request.operands.iter().map(known).collect();
        let id = request.section.id().number();
        let key = (id, operands.iter().map(|(argument, _)| *argument).collect::<Vec<_>>());
        let fitting = |pieces: &&Rc<Vec<Piece>>| self.wanted_for(request, pieces, &operands).is_some();
        if let Some(pieces) = self.divisions.borrow().get(&key).and_then(|all| all.iter().find(fitting)) {
            return Some(pieces.clone());
        }
        let hopeless = (id, operands.clone());
        if self.undivided.borrow().contains(&hopeless) {
            return None;
        }
        let fits = |section: &Graph, operands: &[Known]| results_of(section, operands, request.release);
        let Some(pieces) = divide(request.section, &operands, &fits) else {
            let mut undivided = self.undivided.borrow_mut();
            if undivided.len() >= MOST_SIZES {
                undivided.clear();
            }
            undivided.insert(hopeless);
            return None;
        };
        let pieces = Rc::new(pieces);
        let wanted = self.new_ones(self.wanted_for(request, &pieces, &operands)?);
        if !wanted.is_empty() {
            // Each piece that wants it is told.
            let _ = self.make(&wanted);
        }
        self.divisions.borrow_mut().entry(key).or_default().push(pieces.clone());
        Some(pieces)
    }

    /// The kernels of pieces, if they can run on what a group is to run on.
    fn wanted_for(&self, request: &Request<'_>, pieces: &[Piece], operands: &[Known]) -> Option<Vec<Wanted>> {
        let section = request.section;
        let mut values: FxHashMap<Value, Known> =
            section.params(section.root()).zip(operands.iter().cloned()).collect();
        let mut wanted = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let known: Vec<Known> = piece.operands.iter().map(|value| values[value].clone()).collect();
            let (kernel, geometry) = self.settled_for(&piece.section, request.name, &known, request.release).ok()?;
            values.extend(piece.results.iter().copied().zip(results(&kernel, &geometry)));
            wanted.push(Wanted::new(kernel, geometry.walk));
        }
        Some(wanted)
    }
}

/// What a section makes of its operands, if one kernel can run it.
fn results_of(section: &Graph, operands: &[Known], release: (u32, u32)) -> Option<Vec<Known>> {
    let (arguments, views): (Vec<Argument>, Vec<Option<View>>) = operands.iter().cloned().unzip();
    let kernel = lower(section, NAME, &arguments, release).ok()?;
    let geometry = settle(&kernel, &views).ok()?;
    Some(results(&kernel, &geometry))
}

/// What a launch makes.
fn results(kernel: &Kernel, geometry: &Geometry) -> Vec<Known> {
    let known = |&tensor: &usize| {
        let (shape, strides) = geometry.made[tensor].clone();
        let argument = Argument::Tensor { dtype: kernel.made[tensor].dtype, dimensioned: !shape.is_empty() };
        (argument, Some(View { shape, strides, offset: 0 }))
    };
    kernel.results.iter().map(known).collect()
}
